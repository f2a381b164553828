/** The complete examples of README.md and docs/*.md, and a project in which they compile and run as they stand there. */
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

const repository = fileURLToPath(new URL("../..", import.meta.url));

export interface Example {
  /** README.md:12 */
  readonly place: string;
  /** The page and the heading above it: "docs/tasks.md, Batches". That stays the same where lines move. */
  readonly title: string;
  readonly text: string;
}

export async function examplesOfDocs(): Promise<Example[]> {
  const docs = (await readdir(join(repository, "docs"))).filter((name) => name.endsWith(".md")).sort();
  const pages = ["README.md", ...docs.map((name) => `docs/${name}`)];
  const examplesIn = async (page: string) => examplesOf(page, await readFile(join(repository, page), "utf8"));
  return (await Promise.all(pages.map(examplesIn))).flat();
}

/** Only what begins with an import claims to be complete; the rest are fragments. */
export function examplesOf(page: string, text: string): Example[] {
  return [...text.matchAll(/^```ts\n(import .*?)^```/gms)].map((match) => {
    const before = text.slice(0, match.index);
    const headings = [...before.replace(/^```.*?^```/gms, "").matchAll(/^#+ (.*)$/gm)];
    return {
      place: `${page}:${before.split("\n").length + 1}`,
      title: `${page}, ${headings.at(-1)?.[1]}`,
      text: match[1] ?? "",
    };
  });
}

/** A folder in which `everbeat` is what was built and everything else that we have is installed; gone after the test. */
export async function projectForExamples(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "everbeat-docs-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module", private: true }));
  await mkdir(join(folder, "node_modules"));
  for (const name of await readdir(join(repository, "node_modules"))) {
    if (!name.startsWith("."))
      await symlink(join(repository, "node_modules", name), join(folder, "node_modules", name));
  }
  await symlink(repository, join(folder, "node_modules", "everbeat"));
  return folder;
}

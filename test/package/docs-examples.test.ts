/** Every complete example in the documentation compiles against the package: one that does not is a defect. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { repository } from "./packed-project.ts";

interface Example {
  /** README.md:12 */
  readonly place: string;
  readonly text: string;
}

test("every example that begins with an import compiles", async ({ onTestFinished }) => {
  const examples = (await Promise.all((await pages()).map(examplesIn))).flat();
  expect(examples.length).toBeGreaterThan(0);
  const folder = await mkdtemp(join(tmpdir(), "everbeat-docs-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await makeProject(folder, examples);
  expect(await complaintsAbout(folder, examples)).toEqual([]);
}, 60_000);

test("an example that does not compile is named by its page and line", async ({ onTestFinished }) => {
  const folder = await mkdtemp(join(tmpdir(), "everbeat-docs-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const page =
    'Words.\n\n```ts\nimport { Everbeat } from "everbeat";\nEverbeat.close();\n```\n\n```ts\nnot complete\n```\n';
  const examples = examplesOf("page.md", page);
  expect(examples).toHaveLength(1);
  await makeProject(folder, examples);
  expect(await complaintsAbout(folder, examples)).toEqual([expect.stringMatching(/^page\.md:5: .*'close'/)]);
}, 60_000);

async function pages(): Promise<string[]> {
  const docs = existsSync(join(repository, "docs")) ? await readdir(join(repository, "docs")) : [];
  return ["README.md", ...docs.filter((name) => name.endsWith(".md")).map((name) => `docs/${name}`)].filter((page) =>
    existsSync(join(repository, page)),
  );
}

async function examplesIn(page: string): Promise<Example[]> {
  return examplesOf(page, await readFile(join(repository, page), "utf8"));
}

/** Only what begins with an import claims to be complete; the rest are fragments. */
function examplesOf(page: string, text: string): Example[] {
  return [...text.matchAll(/^```ts\n(import .*?)^```/gms)].map((match) => ({
    place: `${page}:${text.slice(0, match.index).split("\n").length + 1}`,
    text: match[1] ?? "",
  }));
}

async function makeProject(folder: string, examples: readonly Example[]): Promise<void> {
  const compilerOptions = {
    target: "ES2022",
    lib: ["ES2023", "ESNext.Disposable"],
    module: "NodeNext",
    strict: true,
    allowImportingTsExtensions: true,
    skipLibCheck: true,
    types: ["node"],
    noEmit: true,
  };
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module", private: true }));
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  await mkdir(join(folder, "node_modules"));
  for (const name of await readdir(join(repository, "node_modules"))) {
    if (!name.startsWith("."))
      await symlink(join(repository, "node_modules", name), join(folder, "node_modules", name));
  }
  await symlink(repository, join(folder, "node_modules", "everbeat"));
  for (const [index, { text }] of examples.entries()) await writeFile(join(folder, `example-${index}.ts`), text);
}

/** What the compiler says, each with the line of the page that it is about. */
async function complaintsAbout(folder: string, examples: readonly Example[]): Promise<string[]> {
  const tsc = join(repository, "node_modules/typescript/bin/tsc");
  const said = await promisify(execFile)(process.execPath, [tsc, "-p", folder], { cwd: folder }).then(
    ({ stdout }) => stdout,
    ({ stdout }: { stdout: string }) => stdout,
  );
  return said
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const found = /^example-(\d+)\.ts\((\d+),\d+\): (.*)$/.exec(line);
      const [page = "", first = ""] = examples[Number(found?.[1])]?.place.split(":") ?? [];
      return found ? `${page}:${Number(first) + Number(found[2]) - 1}: ${found[3]}` : line;
    });
}

/** Every complete example in the documentation compiles against the package: one that does not is a defect. */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { type Example, examplesOf, examplesOfDocs, projectForExamples } from "../support/docs-examples.ts";
import { repository } from "./packed-project.ts";

test("every example that begins with an import compiles", async () => {
  const examples = await examplesOfDocs();
  expect(examples.length).toBeGreaterThan(0);
  expect(await complaintsAbout(examples)).toEqual([]);
}, 60_000);

test("an example that does not compile is named by its page and line", async () => {
  const page =
    'Words.\n\n```ts\nimport { Everbeat } from "everbeat";\nEverbeat.close();\n```\n\n```ts\nnot complete\n```\n';
  const examples = examplesOf("page.md", page);
  expect(examples).toHaveLength(1);
  expect(await complaintsAbout(examples)).toEqual([expect.stringMatching(/^page\.md:5: .*'close'/)]);
}, 60_000);

test.each([3, 15])(
  "the first test of the page about testing passes at %d o'clock",
  async (hour) => {
    const example = (await examplesOfDocs()).find(({ title }) => title === "docs/testing.md, One handler by itself");
    const folder = await projectForExamples();
    await writeFile(join(folder, "example.test.ts"), example?.text ?? "");
    // In Etc/GMT+5 it is five hours less than in UTC.
    const behind = ((new Date().getUTCHours() - hour + 36) % 24) - 12;
    const env = { ...process.env, TZ: `Etc/GMT${behind < 0 ? "" : "+"}${behind}` };
    const ran = promisify(execFile)(process.execPath, ["--import", "jiti/register", "--test", "example.test.ts"], {
      cwd: folder,
      env,
    });
    expect((await ran).stdout).toMatch(/pass 1\n/);
  },
  60_000,
);

/** What the compiler says, each with the line of the page that it is about. */
async function complaintsAbout(examples: readonly Example[]): Promise<string[]> {
  const folder = await projectForExamples();
  for (const [index, { text }] of examples.entries()) await writeFile(join(folder, `example-${index}.ts`), text);
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
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
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

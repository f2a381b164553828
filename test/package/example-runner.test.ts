/** `npm run example`: names what there is, and refuses what there is not. CI runs the examples themselves. */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repository } from "./packed-project.ts";

const folder = join(repository, "examples");
const names = readdirSync(folder);
const example = (...args: string[]) =>
  spawnSync(process.execPath, [join(repository, "scripts/example.js"), ...args], { encoding: "utf8" });

test.each([[[]], [["no-such-example"]], [["quick-start", "fenced-effects"]]])("%j lists the examples", (args) => {
  const { status, stderr } = example(...args);
  expect(status).toBe(2);
  for (const name of names) expect(stderr).toMatch(new RegExp(`^  ${name} +\\w`, "m"));
});

test.each(names)("%s has a main.ts, and a README that says how to run it", (name) => {
  expect(existsSync(join(folder, name, "main.ts"))).toBe(true);
  expect(readFileSync(join(folder, name, "README.md"), "utf8")).toContain(`npm run example ${name}`);
});

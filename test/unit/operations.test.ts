import { appendFileSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import * as z from "zod";
import type { Operation } from "../../src/operations/operation.ts";
import { OPERATIONS } from "../../src/operations/operations.ts";

const source = fileURLToPath(new URL("../../src/", import.meta.url));
const textsOf = (folder: string) =>
  readdirSync(join(source, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .map((file) => readFileSync(join(source, folder, file), "utf8"))
    .join("\n");

const list = Object.values(OPERATIONS) as unknown as Operation<string, z.ZodType, z.ZodType, unknown>[];
const byName = list.map((operation) => [operation.name, operation] as const);

/** Operations that no command asks for, and why. */
const BESIDE_THE_CLI: Readonly<Record<string, string>> = {
  "tasks.counts": "`status` shows them, beside all else",
  "runners.list": "`replicas` shows those that are there, each beside its replica",
  "recovery.report-exit": "whoever starts workers calls it: `start --processes` does so by itself",
};

describe("the list of operations", () => {
  test("has every operation that a file defines", () => {
    const defined = [...textsOf("operations").matchAll(/= operation\(\{\s+name: "([^"]+)"/g)].map(([, name]) => name);
    expect(defined.length).toBeGreaterThan(5);
    expect(Object.keys(OPERATIONS).sort()).toEqual(defined.sort());
  });

  test("is in the reach of the command line, but for those that have a reason", () => {
    const asked = [...textsOf("cli").matchAll(/(?:\bask|changeQueue)\((?:call, )?"([^"]+)"/g)].map(([, name]) => name);
    const unreached = Object.keys(OPERATIONS).filter((name) => !asked.includes(name));
    expect(unreached.sort()).toEqual(Object.keys(BESIDE_THE_CLI).sort());
  });
});

describe("the page of all operations", () => {
  const path = join(source, "..", "docs", "api-operations.md");
  const rowsOf = (page: string) => page.split("\n").filter((line) => line.startsWith("| `"));

  test("has the table of them, in the order of the list", () => {
    const rows = list.map(
      ({ name, role, input, description }) => `| \`${name}\` | ${role} | ${inputWords(input)} | ${description} |`,
    );
    // After a change take the rows out of the page, and run this: it writes the new ones below the head of the table.
    if (rowsOf(readFileSync(path, "utf8")).length === 0) appendFileSync(path, `${rows.join("\n")}\n`);
    expect(rowsOf(readFileSync(path, "utf8"))).toEqual(rows);
  });

  /** `name`, `all?`: what must be given, and what may. */
  function inputWords(input: z.ZodType): string {
    const { properties = {}, required = [] } = z.toJSONSchema(input, { io: "input" });
    const words = Object.keys(properties).map((key) => `\`${key}${required.includes(key) ? "" : "?"}\``);
    return words.join(", ") || "–";
  }
});

describe.each(byName)("%s", (name, { input, answer, description, role, changes }) => {
  test("has a name of a subject and a word, and a sentence without its full stop", () => {
    expect(name).toMatch(/^[a-z-]+(\.[a-z-]+)?$/);
    expect(description).toMatch(/^[a-z].*[^.]$/);
  });

  test("needs no more than to look where it changes nothing, and more where it does", () => {
    expect(role === "viewer").toBe(!changes);
  });

  test("has an input and an answer that can be told in JSON Schema", () => {
    expect(z.toJSONSchema(input, { io: "input" })).toMatchObject({ type: "object", additionalProperties: false });
    expect(z.toJSONSchema(answer, { io: "input" })).toMatchObject({ type: "object" });
  });
});

/** Every error has a kind, which the documentation names and each front turns into its own. */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { EXIT_OF_KINDS } from "../../src/cli/exit-codes.ts";
import { InvalidOptionsError } from "../../src/config/problems.ts";
import { NoReplyError } from "../../src/database/errors.ts";
import { isOutage } from "../../src/database/transient.ts";
import { DuplicateTaskError, ResultTimeoutError } from "../../src/task/errors.ts";
import type { TaskId } from "../../src/task/ids.ts";
import { toldError } from "../../src/told-error.ts";

const PAGE = readFileSync("docs/errors.md", "utf8");
const sources = readdirSync("src", { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts"))
  .map((file) => readFileSync(`src/${file}`, "utf8"));

const documented = new Map(
  [...PAGE.matchAll(/^\| `([A-Z_]+)` \| (?:`([a-z-]+)`|by its SQLSTATE) \|/gm)].map(([, code = "", kind]) => [
    code,
    kind,
  ]),
);

describe("the page of errors", () => {
  const classes = sources.flatMap((text) =>
    [...text.matchAll(/readonly code = "([A-Z_]+)";\n\s+readonly kind = "([a-z-]+)";/g)].map(
      ([, code = "", kind]) => [code, kind] as const,
    ),
  );

  test("has the code of every class, with its kind, and of what is told of other errors", () => {
    const count = sources.flatMap((text) => [...text.matchAll(/ extends EverbeatError \{/g)]).length;
    // One has the code of the task that it is of.
    expect(classes).toHaveLength(count - 1);
    const told = [
      ["DATABASE_LOST", "unavailable"],
      ["DATABASE_REFUSED", undefined],
      ["INTERNAL", "internal"],
    ] as const;
    expect(Object.fromEntries(documented)).toEqual(Object.fromEntries([...classes, ...told]));
    expect(new Set(classes.map(([code]) => code)).size).toBe(classes.length);
  });

  test("has each kind with its exit code", () => {
    const kinds = [...PAGE.matchAll(/^\| `([a-z-]+)` \|.*\| (\d) \|$/gm)].map(([, kind, exit]) => [kind, Number(exit)]);
    expect(Object.fromEntries(kinds)).toEqual(EXIT_OF_KINDS);
  });

  test("has the codes that only records have, and no other", () => {
    const routines = readdirSync("migrations/routines", { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".sql"))
      .map((file) => readFileSync(`migrations/routines/${file}`, "utf8"));
    const text = [...sources, ...routines].join("\n");
    const ofNode = ["EACCES", "ELOOP"];
    const written = [...text.matchAll(/(?:\bcode: |'code', )["']([A-Z_]+)["']/g)].map(([, code = ""]) => code);
    const onRecord = [...PAGE.matchAll(/^\| `([A-Z_]+)` \| [^`|]/gm)].map(([, code = ""]) => code);
    const known = [...documented.keys(), ...onRecord, ...ofNode];
    expect(written.filter((code) => !known.includes(code))).toEqual([]);
    expect(onRecord.filter((code) => !new RegExp(`["']${code}["']`).test(text))).toEqual([]);
    expect(onRecord.length).toBeGreaterThan(5);
  });
});

describe("what is told of an error", () => {
  const refusal = (code: string) => Object.assign(new Error("no"), { code, severity: "ERROR" });

  test("is its own kind, code and message, without a stack, where it is one of ours", () => {
    const error = new InvalidOptionsError("This", ["a: must be a number"]);
    expect(toldError(error)).toEqual({
      ...{ kind: "bad-request", code: "INVALID_OPTIONS", message: error.message, advice: [] },
    });
  });

  test("has the operations that help", () => {
    const id = "0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11" as TaskId;
    expect(toldError(new ResultTimeoutError(id, 1_000, "running")).advice).toMatchObject([
      { operation: "tasks.explain", input: { id } },
      { operation: "tasks.cancel", input: { ids: [id] } },
    ]);
    expect(toldError(new DuplicateTaskError("resize", "key", id)).advice).toMatchObject([
      { operation: "tasks.explain", input: { id } },
    ]);
  });

  test.each([
    ["57P01", "unavailable"],
    ["53300", "unavailable"],
    ["08006", "unavailable"],
    ["55P03", "not-now"],
    ["40P01", "not-now"],
    ["57014", "not-now"],
    ["23505", "conflict"],
    ["42501", "refused"],
    ["P0001", "refused"],
    ["22012", "refused"],
  ])("follows from the SQLSTATE %s: %s", (code, kind) => {
    const told = toldError(refusal(code));
    expect(told).toMatchObject({ kind, code: kind === "unavailable" ? "DATABASE_LOST" : "DATABASE_REFUSED" });
  });

  const own = [...readFileSync("docs/transactions.md", "utf8").matchAll(/^\| `(EB\d{3})` .*\| `([A-Z_]+)`.*\|$/gm)];
  test.each(own.map(([, sqlstate = "", code = ""]) => [sqlstate, code]))(
    "is for %s of the same kind as for %s, which is the same in the API",
    (sqlstate, code) => {
      expect(toldError(refusal(sqlstate)).kind).toBe(documented.get(code));
    },
  );

  test("is that the database is unavailable wherever our own errors say that nothing can be done now", () => {
    const error = new NoReplyError(5);
    expect(isOutage(error)).toBe(true);
    expect(toldError(error)).toMatchObject({ kind: "unavailable", code: "NO_REPLY" });
  });

  test("is a lost connection without a code as an outage, and anything else as what should not have happened, with its stack", () => {
    expect(toldError(new Error("Connection terminated unexpectedly")).kind).toBe("unavailable");
    const odd = new TypeError("x is not a function");
    expect(toldError(odd)).toMatchObject({ kind: "internal", code: "INTERNAL", stack: odd.stack });
    expect(toldError("thrown text")).toMatchObject({
      kind: "internal",
      message: expect.stringContaining("thrown text"),
    });
  });
});

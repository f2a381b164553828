/** What the doctor says of each state that a schema can be in. */
import { expect, test } from "vitest";
import type { SchemaState } from "../../src/database/schema-state.ts";
import { judgeSchema } from "../../src/doctor/check-schema.ts";

const fits: SchemaState = {
  ...{ schema: "jobs", version: 2, wanted: 2, pending: [], outdated: 0, needsMigration: false, problem: null },
};
const problem = { code: "SOME_CODE", message: "what is wrong" };

test.each<[string, Partial<SchemaState>, string, string, string | undefined]>([
  ["that fits", {}, "good", '"jobs" is up to date, at version 2', undefined],
  ["that a newer version has extended", { version: 3 }, "good", '"jobs" is up to date, at version 3', undefined],
  [
    "that is not there",
    { version: 0, pending: ["1", "2"], needsMigration: true, problem },
    ...(["warning", '"jobs" is not there yet', "schema.migrate"] as const),
  ],
  [
    "that is too old",
    { version: 1, pending: ["2"], needsMigration: true, problem },
    ...(["warning", '"jobs" waits for 1 migration', "schema.migrate"] as const),
  ],
  [
    "with functions that are too old",
    { outdated: 4, needsMigration: true, problem },
    ...(["warning", "what is wrong", "schema.migrate"] as const),
  ],
  ["that is too new", { version: 9, problem }, "wrong", "what is wrong", undefined],
])("a schema %s", (_what, given, mark, found, operation) => {
  const finding = judgeSchema({ ...fits, ...given });
  expect(finding).toMatchObject({ check: "schema", mark, found });
  expect(finding.advice?.[0]?.operation).toBe(operation);
});

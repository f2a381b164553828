/** What is on record of a death is read in full, and what nobody understands is left out. */
import { expect, test } from "vitest";
import { type DeathRecord, readDeath } from "../../src/recovery/death-record.ts";

const WHOLE: Required<DeathRecord> = {
  because: "loop-blocked",
  silentForMs: 1_500,
  vitals: { rssBytes: 1 },
  wasDraining: true,
  isCharged: false,
  exitCode: 3,
  signal: "SIGKILL",
  group: { used: 90, limit: 100, kills: 1 },
  stack: "at busy (file.js:1:1)",
  blockedForMs: 61_000,
};

test.each(Object.keys(WHOLE) as (keyof DeathRecord)[])("%s is read as it was written", (field) => {
  expect(readDeath({ [field]: WHOLE[field] })).toEqual({ [field]: WHOLE[field] });
});

test("all of them together, and nothing else", () => {
  expect(readDeath({ ...WHOLE, more: 1 })).toEqual(WHOLE);
});

test.each([...Object.keys(WHOLE).filter((field) => field !== "vitals")])("%s of another kind is left out", (field) => {
  expect(readDeath({ [field]: ["odd"] })).toEqual({});
});

test.each([{ used: 1 }, { used: 1, limit: 0, kills: 0 }, { used: "1", limit: 2, kills: 0 }, null])(
  "a cgroup of which not all is known is left out: %j",
  (group) => {
    expect(readDeath({ group })).toEqual({});
  },
);

/** Outcomes whose round has failed: which of them are written, in what company, and what is said of them. */
import { describe, expect, onTestFinished, test } from "vitest";
import type { Outcome } from "../../src/sql/outcomes.ts";
import type { ClaimId, ReplicaId, TaskId } from "../../src/task/ids.ts";
import { HeldOutcomes } from "../../src/worker/held-outcomes.ts";
import type { OutcomeStatus } from "../../src/worker/rounds.ts";
import { eventually } from "../support/eventually.ts";

const outcomeOf = (n: number): Outcome => ({
  ...{ claim: String(n) as ClaimId, task: `t${n}` as TaskId, replica: "r" as ReplicaId },
  ...{ to: "completed", outcome: "completed" },
});
const withCode = (code: string) => Object.assign(new Error(`refused with ${code}`), { code });

/** `write`: what the database does with these; undefined to take them. */
function scene(
  write: (claims: readonly string[], outcomes: readonly Outcome[]) => Error | undefined,
  locked: readonly string[] = [],
) {
  const statements: string[][] = [];
  const told: { claim: string; status: OutcomeStatus; code: string | undefined }[] = [];
  const stuck: string[] = [];
  const trouble: unknown[] = [];
  const giving = new AbortController();
  onTestFinished(() => giving.abort());
  const held = new HeldOutcomes<{ outcome: Outcome }>({
    async write(outcomes) {
      const claims = outcomes.map(({ claim }) => claim);
      statements.push(claims);
      const error = write(claims, outcomes);
      if (error) throw error;
      return outcomes.map(() => "done");
    },
    findLocked: async (outcomes) =>
      new Set(outcomes.map(({ claim }) => claim).filter((claim) => locked.includes(claim))),
    onStatuses: (ended, statuses) =>
      void ended.forEach(({ outcome }, index) => {
        told.push({ claim: outcome.claim, status: statuses[index] as OutcomeStatus, code: outcome.error?.code });
      }),
    onTrouble: (error) => trouble.push(error),
    onStuck: ({ claim }) => stuck.push(claim),
    signal: giving.signal,
  });
  const add = (...numbers: number[]) => held.add(numbers.map((n) => ({ outcome: outcomeOf(n) })));
  const written = () => told.filter(({ status }) => status === "done").map(({ claim }) => Number(claim));
  return { add, statements, told, stuck, trouble, giving, written };
}

const TEN = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

describe.each(["P0001", "55P03", "54000", "0A000", "57014", "42703", "40P01", "NO_REPLY"])(
  "one of ten that fails with %s",
  (code) => {
    test("keeps none of the others from being written, nor those that come later", async () => {
      let isBad = true;
      const { add, written, stuck, trouble } = scene((claims) =>
        isBad && claims.includes("4") ? withCode(code) : undefined,
      );
      add(...TEN);
      await eventually(() => written().length === 9);
      add(11, 12);
      await eventually(() => written().length === 11);
      expect(written()).not.toContain(4);
      expect(new Set(stuck)).toEqual(new Set(["4"]));
      expect(trouble).toEqual([]);
      isBad = false;
      await eventually(() => written().includes(4));
      expect(written().sort((a, b) => a - b)).toEqual([...TEN, 11, 12]);
    });
  },
);

test("those that come while another is stuck do not wait for its next try", async () => {
  const { add, written, statements } = scene((claims) => (claims.includes("1") ? withCode("54000") : undefined));
  add(1);
  // By then its tries are a second apart or more.
  await eventually(() => statements.length >= 7);
  const before = statements.length;
  add(2);
  await eventually(() => written().includes(2));
  expect(statements[before]).toEqual(["2"]);
});

test("an outcome that the database takes only without what it holds is told of as it was stored", async () => {
  const { add, told } = scene((_, [first]) => (first?.error ? undefined : withCode("22P05")));
  add(1);
  await eventually(() => told.length === 1);
  expect(told).toEqual([{ claim: "1", status: "done", code: "OUTCOME_NOT_STORABLE" }]);
});

test("an outcome is written as it was where what refused it ends between two statements", async () => {
  let count = 0;
  const { add, told } = scene(() => (++count <= 3 ? withCode("P0001") : undefined));
  add(1);
  await eventually(() => told.length === 1);
  expect(told).toEqual([{ claim: "1", status: "done", code: undefined }]);
});

test("those whose claims are locked are found out at once, and the others are written", async () => {
  const locked = ["2", "3", "5", "7"];
  const { add, written, statements, stuck } = scene(
    (claims) => (claims.some((claim) => locked.includes(claim)) ? withCode("55P03") : undefined),
    locked,
  );
  add(...TEN);
  await eventually(() => written().length === 6);
  expect(statements.slice(0, 2).map(({ length }) => length)).toEqual([10, 6]);
  expect(stuck.slice(0, 4)).toEqual(locked);
});

test("while the database is away, nobody is stuck, and all are written together when it is back", async () => {
  let isAway = true;
  const { add, written, stuck, statements, trouble } = scene(() => (isAway ? withCode("ECONNREFUSED") : undefined));
  add(...TEN);
  await eventually(() => trouble.length >= 2);
  isAway = false;
  await eventually(() => written().length === 10);
  expect(stuck).toEqual([]);
  expect(statements.at(-1)).toHaveLength(10);
});

test("a database that refuses everything is not asked for each of them at once", async () => {
  let isFull = true;
  const { add, written, statements } = scene(() => (isFull ? withCode("53100") : undefined));
  const many = Array.from({ length: 1_000 }, (_, n) => n);
  add(...many);
  await eventually(() => statements.some(({ length }) => length === 1));
  expect(statements.length).toBeLessThan(20);
  isFull = false;
  await eventually(() => written().length === 1_000);
  expect(statements.length).toBeLessThan(60);
});

test("those that are given up are told of, stuck or not", async () => {
  const { add, told, giving } = scene((claims) =>
    claims.includes("2") ? withCode("54000") : withCode("ECONNREFUSED"),
  );
  add(1, 2, 3);
  giving.abort();
  await eventually(() => told.length === 3);
  expect(told.every(({ status }) => status === "given-up")).toBe(true);
});

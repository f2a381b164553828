/** The judge of a server's loss of memory: a small sound record has no problem, and each way of breaking it has the right one. */
import { describe, expect, test } from "vitest";
import { checkRights, type RightsRecord } from "../support/check-rights.ts";

const signature = (task: string, claim: string) => ({ task, claim });
const T = signature("t", "1");
const U = signature("u", "9");

/** Task t was there before the loss. Claim 5 was forgotten. Task u came after the loss and completed in a transaction of its own. */
const SOUND: RightsRecord = {
  signedBefore: [T, signature("x", "5")],
  signed: [T, signature("x", "5"), U],
  lastClaim: "9",
  tasks: ["t", "u"],
  attempts: [
    { ...T, endedAt: 200 },
    { ...U, endedAt: 900 },
  ],
  outcomes: [
    { ...T, state: "completed", result: T },
    { ...U, state: "completed", result: U },
  ],
  ended: ["t", "u"],
  effects: [
    { ...T, committedAt: 100 },
    { ...U, committedAt: 900 },
  ],
};

const problemsOf = (broken: Partial<RightsRecord>) => checkRights({ ...SOUND, ...broken });

test("a sound record has no problem", () => expect(problemsOf({})).toEqual([]));

describe("a record", () => {
  test.each<[string, Partial<RightsRecord>, string]>([
    ["of a server that remembers everything", { signedBefore: [T] }, "nothing was forgotten"],
    [
      "with ids that go on below what was forgotten",
      { lastClaim: "5" },
      "claim ids go on from 5, and 5 was issued before",
    ],
    [
      "with an id that was issued again after the loss, for another task",
      { signed: [...SOUND.signed, signature("u", "5")] },
      "claim 5 was signed twice",
    ],
    ["with a claim under which a task ran twice", { signed: [...SOUND.signed, U] }, "claim 9 was signed twice"],
    [
      "with one claim on two tasks",
      { attempts: [...SOUND.attempts, { ...signature("v", "2"), endedAt: 1 }, { ...signature("w", "2"), endedAt: 1 }] },
      "claim 2 is on record twice",
    ],
    [
      "with a claim on another task than its handler had",
      { attempts: [...SOUND.attempts, { ...signature("u", "5"), endedAt: 1 }], signedBefore: [signature("x", "4")] },
      "claim 5 is on record for task u, and was for task x",
    ],
    [
      "with an outcome of another task",
      { outcomes: [{ ...U, state: "completed", result: T }] },
      "task u, claim 9, has the result of task t, claim 1",
    ],
    [
      "with an outcome of an earlier claim on the task",
      { outcomes: [{ ...U, state: "completed", result: signature("u", "5") }] },
      "task u, claim 9, has the result of task u, claim 5",
    ],
    [
      "with an outcome without a signature",
      { outcomes: [{ ...U, state: "completed", result: null }] },
      "task u, claim 9, has the result of task undefined, claim undefined",
    ],
    [
      "with a task that did not complete",
      { outcomes: [{ ...U, state: "failed", result: null }] },
      "task u is failed, and all of its kind complete",
    ],
    [
      "with an effect of a claim that was forgotten",
      { effects: [{ ...signature("x", "5"), committedAt: 150 }] },
      "an effect on task x by claim 5, which the database does not know",
    ],
    [
      "with an effect of a claim on another task",
      { effects: [{ ...signature("u", "1"), committedAt: 150 }] },
      "an effect on task u by claim 1, which the database does not know",
    ],
    [
      "with an effect of an attempt that had ended",
      { effects: [{ ...T, committedAt: 201 }] },
      "an effect on task t by claim 1 1 µs after its attempt had ended",
    ],
    ["with a task that has not ended", { ended: ["u"] }, "task t has ended 0 times"],
    ["with a task that has ended twice", { ended: ["t", "u", "u"] }, "task u has ended 2 times"],
  ])("%s", (_, broken, problem) => expect(problemsOf(broken)).toEqual([problem]));
});

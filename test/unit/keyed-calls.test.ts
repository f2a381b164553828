/** Calls with many tasks and keys: what a try has sent is known to the tries after it. */
import { expect, test } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { KeyedCalls } from "../../src/queue/keyed-calls.ts";

test("a call whose reply was lost and that then met a lock still says that it may have been done before", async () => {
  const outcomes = [{ code: "ECONNRESET" }, { code: "55P03" }, undefined];
  const again: boolean[] = [];
  const answer = await new KeyedCalls({} as Database).whenFree(async (_patienceMs, mayBeDone) => {
    const error = outcomes[again.push(mayBeDone) - 1];
    if (error) throw Object.assign(new Error("no"), error);
    return "done";
  });
  expect(answer).toBe("done");
  expect(again).toEqual([false, true, true]);
});

test("a call that was only locked out has done nothing, and says so", async () => {
  const again: boolean[] = [];
  await new KeyedCalls({} as Database).whenFree(async (_patienceMs, mayBeDone) => {
    if (again.push(mayBeDone) < 3) throw Object.assign(new Error("locked"), { code: "55P03" });
  });
  expect(again).toEqual([false, false, false]);
});

/** What is said of a parked task: how many are let go before it when its key is free. */
import { expect, test } from "vitest";
import { MISSED_BEATS } from "../../src/recovery/limits.ts";
import { readTaskFacts } from "../../src/sql/explain-task.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });

test("those before it in its own queue, since the first of every queue is let go", async () => {
  const claimer = handClaimer(everbeat.database, ["noop"]);
  const put = (queue: string, priority = 0) =>
    everbeat.enqueue(noop, 1, { queue, priority, exclusiveKey: "the printer" });
  await put("letters");
  const [holder] = await claimer.claim();
  const [first, second, urgent, elsewhere] = [
    await put("letters"),
    await put("letters"),
    await put("letters", -1),
    await put("photos"),
  ];
  await claimer.claim();
  const ahead = async (id: typeof first) => (await readTaskFacts(everbeat.database, id, MISSED_BEATS))?.key?.ahead;
  expect([await ahead(urgent), await ahead(first), await ahead(second), await ahead(elsewhere)]).toEqual([0, 1, 2, 0]);
  if (holder) await claimer.complete(holder);
  const pending = await Promise.all(
    [first, second, urgent, elsewhere].map((id) => readTaskFacts(everbeat.database, id, MISSED_BEATS)),
  );
  expect(pending.map((facts) => facts?.isParked)).toEqual([true, true, false, false]);
});

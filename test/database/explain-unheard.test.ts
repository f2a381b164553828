/** Nobody is said to be alive on the strength of what was heard before the database was started anew. */
import { expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

test("an owner that was not heard in this epoch is not said to be alive, and when it will be dead is", async () => {
  const { everbeat } = await openTestEverbeat();
  const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
  const claimer = handClaimer(everbeat.database, ["noop"]);
  const id = await everbeat.enqueue(noop, 1);
  expect(await claimer.claim()).toHaveLength(1);
  const other = defineTask({ name: "other", run: (_input: unknown) => null });
  await everbeat.work([other]);
  const told = () => everbeat.recovery.explain(id);
  await eventually(told, { until: ({ because }) => because === "owner-alive" });

  // As a restart of the server does.
  await everbeat.database.query(`delete from ${everbeat.database.schema}.epoch_marker`);
  const unheard = await eventually(told, { until: ({ because }) => because === "owner-unheard" });
  expect(unheard.summary).toMatch(/is not known yet: it has not been heard since the database was started anew/);
  expect(unheard.evidence[0]).toMatch(/: unheard$/);
  expect(unheard.next).toMatch(/^Unless it is heard, it is declared dead in /);
});

/** A worker that was declared dead and comes back goes on working, whatever is locked or refused of the record of its death. */
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { refuse } from "../support/refusing.ts";
import { unique, workingOn } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
const { working, disposable, record } = workingOn(everbeat);
const task = defineTask({ name: unique("back"), run: (_input: null) => "done" });

/** It is taken for dead, and a post-mortem is written of it and of an attempt. */
async function declareDead(replicaId: string): Promise<void> {
  await database.query("update everbeat.replica set status = 'dead', died_at = now(), death = '{}' where id = $1", [
    replicaId,
  ]);
  await database.query(
    `insert into everbeat.post_mortem (kind, replica_id, claim_id, happened_at, cause, sentence, evidence)
     values ('replica', $1, null, now(), 'unknown', 's', '{}'), ('attempt', $1, nextval('everbeat.claim_id'), now(), 'unknown', 's', '{}')`,
    [replicaId],
  );
}
const letItKnow = (replicaId: string) =>
  database.query("update everbeat.heart set is_dead = true where replica_id = $1", [replicaId]);
const causes = async (replicaId: string) => {
  const rows = await database.query<{ cause: string; lines: number }>(
    "select cause, cardinality(evidence) as lines from everbeat.post_mortem where replica_id = $1 order by kind",
    [replicaId],
  );
  return rows.map(({ cause, lines }) => [cause, lines]);
};

test.each([
  ["post_mortem", "replica_id = $1 and kind = 'attempt'", ["unknown", 0], ["stood-still", 1]],
  ["unrest", "replica_id = $1", ["unknown", 0], ["unknown", 0]],
])("a row of %s that somebody has locked", async (table, condition, ofAttempt, ofReplica) => {
  await using at = await disposable(working([task]));
  const { replicaId } = at.worker;
  await declareDead(replicaId);
  await database.query(
    "insert into everbeat.unrest (kind, machine_id, hostname, replica_id) values ('dead', 'm', 'h', $1)",
    [replicaId],
  );
  const holder = new pg.Client(database.url);
  await holder.connect();
  onTestFinished(() => holder.end());
  await holder.query("begin");
  await holder.query(`select from everbeat.${table} where ${condition} for update`, [replicaId]);
  const back = record("replica.rejoined");
  await letItKnow(replicaId);
  await eventually(() => back.length === 1, { what: "the worker to be back" });
  expect(await everbeat.result(await everbeat.enqueue(task, null))).toBe("done");
  expect(await causes(replicaId)).toEqual([ofAttempt, ofReplica]);
  await holder.query("rollback");
  const bothCorrected = (rows: unknown[][]) => rows.every(([cause, lines]) => cause === "stood-still" && lines === 1);
  await eventually(() => causes(replicaId), { until: bothCorrected, what: "the record to be put right" });
});

test("a row that a trigger refuses to have changed: this is told of, and the record is put right when it can be", async () => {
  await using at = await disposable(working([task]));
  const { replicaId } = at.worker;
  await declareDead(replicaId);
  const { allow } = await refuse(database, "post_mortem", `new.replica_id = '${replicaId}'`);
  const [back, told] = [record("replica.rejoined"), record("sweep.passed-by")];
  await letItKnow(replicaId);
  await eventually(() => back.length === 1, { what: "the worker to be back" });
  expect(await everbeat.result(await everbeat.enqueue(task, null))).toBe("done");
  expect(back).toHaveLength(1);
  expect(told).toMatchObject([{ what: expect.stringContaining(replicaId), error: { code: "P0001" } }]);
  expect(await everbeat.alerts.list({ open: true })).toMatchObject([{ kind: "sweep-passed-by" }]);
  await allow();
  await eventually(() => everbeat.alerts.list({ open: true }), {
    until: (alerts) => alerts.length === 0,
    what: "the alert to end",
  });
  expect(await causes(replicaId)).toEqual([
    ["stood-still", 1],
    ["stood-still", 1],
  ]);
});

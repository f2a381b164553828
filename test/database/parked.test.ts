/** What is parked behind a key is let go when the key is free, whatever else is locked and whatever has become of its record. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { holding } from "../support/crash-database.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const { everbeat, database } = await openTestEverbeat();

/** For each key one task runs, and another is parked behind it. */
async function parkBehind(keys: readonly string[]) {
  const name = `n-${randomUUID()}`;
  const task = defineTask({ name, run: () => 1 });
  const claimer = handClaimer(everbeat.database, [name]);
  for (const exclusiveKey of [...keys, ...keys]) await everbeat.enqueue(task, undefined, { exclusiveKey });
  const running = await claimer.claim();
  const parked = await database.query<{ id: string }>("select task_id as id from everbeat.parked where name = $1", [
    name,
  ]);
  expect([running, parked].map(({ length }) => length)).toEqual([keys.length, keys.length]);
  return { name, task, claimer, running, parked: parked.map(({ id }) => id) };
}
const lockOf = (key: string) => `everbeat.gate_lock_id('exclusive', '${key}')`;

describe("a parked task without its record", () => {
  test.each(["the end of the one before it", "upkeep"])("is let go by %s, and told of", async (by) => {
    const { task, name, claimer, running, parked } = await parkBehind([randomUUID()]);
    await database.query("delete from everbeat.task where id = any ($1)", [parked]);
    if (by === "upkeep") {
      await database.query("delete from everbeat.running where name = $1", [name]);
      await database.query("select everbeat.run_upkeep(100)");
    } else for (const one of running) await claimer.complete(one);
    expect(await database.query("select from everbeat.parked where name = $1", [name])).toEqual([]);
    const worker = await everbeat.work([task], { handleSignals: false });
    onTestFinished(() => worker.stop({ now: true }));
    const alerts = () =>
      database.query<{ message: string }>("select message from everbeat.alert where subject = $1", [name]);
    await eventually(alerts, { until: (all) => all.some(({ message }) => message.includes("record of task")) });
  });
});

test("a key that somebody keeps locked takes not all patience from another that is locked for a moment", async () => {
  const id = randomUUID();
  const [kept, brief] = [`a ${id}`, `b ${id}`];
  const { name, claimer, running } = await parkBehind([kept, brief]);
  await holding(database.url, `select pg_advisory_xact_lock(${lockOf(kept)})`);
  // It lets go as soon as somebody waits for it.
  const client = new pg.Client(database.url);
  await client.connect();
  onTestFinished(() => client.end());
  const { rows } = await client.query("select pg_backend_pid() as pid");
  onTestFinished(async () => void (await database.query("select pg_cancel_backend($1)", [rows[0].pid])));
  const letsGo = client
    .query(
      `do $$ begin
         perform pg_advisory_xact_lock(${lockOf(brief)});
         while not exists (select from pg_stat_activity where pg_backend_pid() = any (pg_blocking_pids(pid))) loop
           perform pg_stat_clear_snapshot(), pg_sleep(0.001);
         end loop; end $$`,
    )
    .catch(() => {});
  await eventually(
    () => database.query("select from pg_locks where locktype = 'advisory' and granted and pid = $1", [rows[0].pid]),
    { until: (locks) => locks.length === 1 },
  );
  await claimer.end(
    running.map((task) => ({ ...ENDED, claim: task.claimId, task: task.taskId, replica: claimer.replicaId })),
  );
  const parked = await database.query("select exclusive_key as key from everbeat.parked where name = $1", [name]);
  expect(parked).toEqual([{ key: kept }]);
  await letsGo;
}, 20_000);

const ENDED = { to: "completed", outcome: "completed", resultJson: "null" } as const;

/** By hand, whoever the owners are: alive, dead, gone, or not on record at all, several of each in one call. */
import { expect, test } from "vitest";
import { startClaims } from "../../src/sql/claims.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const STATUSES = ["online", "draining", "dead", "offline", "missing"] as const;

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });

/** Two owners of each kind, each with one task in that state. Returns the tasks' ids. */
async function ownersOfEveryKind(state: "claimed" | "running"): Promise<string[]> {
  const ids: string[] = [];
  for (const status of [...STATUSES, ...STATUSES]) {
    const claimer = handClaimer(everbeat.database, ["noop"]);
    ids.push(await everbeat.enqueue(noop, 1));
    const [task] = await claimer.claim({ run: 0, prefetch: 1 });
    if (state === "running") await startClaims(everbeat.database, [task as never]);
    const { replicaId } = claimer;
    if (status === "missing") await database.query("delete from everbeat.replica where id = $1", [replicaId]);
    else await database.query("update everbeat.replica set status = $2 where id = $1", [replicaId, status]);
  }
  return ids.sort();
}

const statesOf = (ids: readonly string[]) =>
  Promise.all(ids.map(async (id) => (await everbeat.tasks.show(id)).state)).then((states) => [...new Set(states)]);

test.each([
  ["claimed", "given back", "pending", "requeueStaleClaimed"],
  ["running", "failed", "failed", "failStaleRunning"],
] as const)("what was %s is %s, but for what is in the hands of those that are well", async (state, _, then, order) => {
  const ids = await ownersOfEveryKind(state);
  const { count, ids: recovered } = await everbeat.recovery[order]({ after: 0 });
  expect([count, await statesOf(recovered)]).toEqual([(ids.length / STATUSES.length) * 3, [then]]);
  const left = ids.filter((id) => !(recovered as readonly string[]).includes(id));
  expect(await statesOf(left)).toEqual([state]);
  await everbeat.tasks.retry(left, { force: true });
  await everbeat.tasks.cancel(ids);
});

test.each(["claimed", "running"] as const)("what was %s is taken away to be run again", async (state) => {
  const ids = await ownersOfEveryKind(state);
  const answers = await everbeat.tasks.retry(ids, { force: true });
  expect(answers.map(({ outcome }) => outcome)).toEqual(ids.map(() => "taken"));
  expect(await statesOf(ids)).toEqual(["pending"]);
  await everbeat.tasks.cancel(ids);
});

test("what was claimed is cancelled at once", async () => {
  const ids = await ownersOfEveryKind("claimed");
  expect((await everbeat.tasks.cancel(ids)).map(({ outcome }) => outcome)).toEqual(ids.map(() => "cancelled"));
  expect(await statesOf(ids)).toEqual(["cancelled"]);
});

test.each([
  ["claimed", "requeueStaleClaimed"],
  ["running", "failStaleRunning"],
] as const)("what was %s and somebody has locked holds up no other, and is named", async (state, order) => {
  const ids = await ownersOfEveryKind(state);
  const dry = await everbeat.recovery[order]({ after: 0, dryRun: true });
  const [locked] = dry.ids;
  await everbeat.database.transaction(async (tx) => {
    await tx.query("select from everbeat.running where task_id = $1 for update", [locked]);
    await expect(everbeat.recovery[order]({ after: 0 })).rejects.toMatchObject({
      ...{ code: "PARTLY_RECOVERED", count: dry.count - 1, refused: [{ id: locked, error: { code: "55P03" } }] },
    });
  });
  expect((await everbeat.recovery[order]({ after: 0 })).ids).toEqual([locked]);
  expect(await database.query("select from everbeat.late")).toEqual([]);
  const left = ids.filter((id) => !(dry.ids as readonly string[]).includes(id));
  await everbeat.tasks.retry(left, { force: true });
  await everbeat.tasks.cancel(ids);
});

test("an owner that is heard again while others are recovered keeps its tasks", async () => {
  const owners = [];
  // Longer than the heart of a claimer by hand promises.
  for (const secondsAgo of [2_000, 1_000]) {
    const claimer = handClaimer(everbeat.database, ["noop"]);
    const id = await everbeat.enqueue(noop, 1);
    await claimer.claim({ run: 1 });
    owners.push({ id, replicaId: claimer.replicaId });
    await database.query(
      "update everbeat.heart set beat_at = now() - make_interval(secs => $2), epoch = everbeat.current_epoch() where replica_id = $1",
      [claimer.replicaId, secondsAgo],
    );
    await database.query("update everbeat.replica set started_at = now() - interval '1 hour' where id = $1", [
      claimer.replicaId,
    ]);
  }
  await database.query(
    `insert into everbeat.listening (epoch, hearing_since, swept_at) values (everbeat.current_epoch(), now() - interval '1 hour', now())
     on conflict (is_only) do update set epoch = excluded.epoch, hearing_since = excluded.hearing_since, swept_at = excluded.swept_at`,
  );
  const [first, second] = owners as [(typeof owners)[0], (typeof owners)[0]];
  expect((await everbeat.recovery.failStaleRunning({ after: "1m", dryRun: true })).ids).toEqual([first.id, second.id]);
  // The end of the first takes for as long as the row is there.
  await database.query(`create table public.gate (); insert into public.gate default values;
    create function public.wait() returns trigger language plpgsql as $$
    begin while exists (select from public.gate) loop perform pg_sleep(0.02); end loop; return new; end $$;
    create trigger wait before insert on everbeat.ended for each row execute function public.wait()`);
  const recovering = everbeat.recovery.failStaleRunning({ after: "1m" });
  const isWaiting = "select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'";
  await eventually(async () => (await database.query(isWaiting)).length > 0);
  await database.query("update everbeat.heart set beat_at = clock_timestamp() where replica_id = $1", [
    second.replicaId,
  ]);
  await database.query("delete from public.gate");
  expect((await recovering).ids).toEqual([first.id]);
  expect((await everbeat.tasks.show(second.id)).state).toBe("running");
});

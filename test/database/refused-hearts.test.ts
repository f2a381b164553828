/** A heart whose row cannot be written stops no sweep: it is told of once and passed by, and what is known of the other hearts stays right. */
import pg from "pg";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { beginSweep } from "../../src/sql/hearts.ts";
import { newReplicaId, type ReplicaId } from "../../src/task/ids.ts";
import { putOnRecord } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { refuse } from "../support/refusing.ts";
import { anHourLater, type Sweeper, sweeper } from "../support/sweeping.ts";

const { everbeat, database } = await openTestEverbeat();
const store = everbeat.database;

beforeEach(() =>
  database.query(
    "truncate everbeat.alert, everbeat.running, everbeat.listening, everbeat.turn, everbeat.replica, everbeat.heart",
  ),
);

/** So many replicas whose session has ended: the next sweep notes that of each. */
async function withoutSessions(count: number): Promise<ReplicaId[]> {
  const replicas = Array.from({ length: count }, () => newReplicaId());
  for (const id of replicas) await putOnRecord(store, id, []);
  await anHourLater(store);
  await database.query("update everbeat.heart set session_epoch = everbeat.current_epoch(), beat_at = now()");
  return replicas;
}

/** Of these, those whose session is noted as free. */
async function notedOf(replicas: readonly ReplicaId[]): Promise<ReplicaId[]> {
  const rows = await database.query<{ id: ReplicaId }>(
    "select replica_id::text as id from everbeat.heart where session_free_since < 'infinity'",
  );
  return replicas.filter((replica) => rows.some(({ id }) => id === replica));
}

const hearingSince = async () => (await everbeat.recovery.listening())?.hearingSince.getTime();
const passedBy = ({ told }: Sweeper) => told.filter(({ event }) => event === "sweep.passed-by");
const alerts = () => everbeat.alerts.list({ open: true });

describe("a heart whose row a trigger refuses", () => {
  test("is told of once and passed by, and the silence of the others is counted on", async () => {
    const replicas = await withoutSessions(5);
    const [bad = "", ...others] = replicas;
    const { allow } = await refuse(database, "heart", `new.replica_id = '${bad}'`);
    const since = await hearingSince();
    const reaper = sweeper(store);
    await reaper.sweep();
    await reaper.sweep();
    expect(await notedOf(replicas)).toEqual(others);
    expect(await hearingSince()).toBe(since);
    const what = expect.stringContaining(bad);
    expect(passedBy(reaper)).toMatchObject([{ what, error: { code: "P0001" } }]);
    expect(await alerts()).toMatchObject([{ kind: "sweep-passed-by", subject: what }]);
    await allow();
    await reaper.sweep();
    expect(await notedOf(replicas)).toEqual(replicas);
    expect(await alerts()).toEqual([]);
  });

  test("is passed by whatever the error: the trigger itself may be broken", async () => {
    const replicas = await withoutSessions(3);
    const [bad = "", ...others] = replicas;
    await database.query(
      "create function public.broken() returns trigger language plpgsql as $$ begin new.gone := 1; return new; end $$",
    );
    onTestFinished(() => void database.query("drop function public.broken() cascade"));
    await database.query(
      `create trigger broken before update on everbeat.heart for each row when (new.replica_id = '${bad}') execute function public.broken()`,
    );
    const reaper = sweeper(store);
    await reaper.sweep();
    expect(await notedOf(replicas)).toEqual(others);
    expect(passedBy(reaper)).toMatchObject([{ what: expect.stringContaining(bad), error: { code: "42703" } }]);
  });

  test("is passed by where its trigger waits for a lock", async () => {
    const replicas = await withoutSessions(3);
    const [bad = "", ...others] = replicas;
    await database.query(
      `create function public.waiting() returns trigger language plpgsql as $$
       begin perform pg_advisory_xact_lock(4711); return new; end $$`,
    );
    onTestFinished(() => void database.query("drop function public.waiting() cascade"));
    await database.query(
      `create trigger waiting before update on everbeat.heart for each row when (new.replica_id = '${bad}') execute function public.waiting()`,
    );
    const holder = new pg.Client(database.url);
    await holder.connect();
    onTestFinished(() => holder.end());
    await holder.query("select pg_advisory_lock(4711)");
    const reaper = sweeper(store);
    await reaper.sweep();
    expect(await notedOf(replicas)).toEqual(others);
    expect(reaper.errors).toMatchObject([{ code: "55P03" }]);
    await holder.query("select pg_advisory_unlock(4711)");
    await reaper.sweep();
    expect(await notedOf(replicas)).toEqual(replicas);
  });

  test("is passed by where the server's clock was set back, too", async () => {
    const replicas = await withoutSessions(3);
    const [bad = ""] = replicas;
    await database.query("update everbeat.heart set session_epoch = null, beat_at = now() + interval '1 hour'");
    await database.query("update everbeat.listening set swept_at = now() + interval '1 hour'");
    await refuse(database, "heart", `new.replica_id = '${bad}'`);
    const reaper = sweeper(store);
    await reaper.sweep();
    const ahead = await database.query("select replica_id::text as id from everbeat.heart where beat_at > now()");
    expect(ahead).toEqual([{ id: bad }]);
    expect(passedBy(reaper)).toMatchObject([{ what: expect.stringContaining(bad) }]);
  });

  test("is one of very many: the sweep says how many there are, and names only some, so that it never has much to send", async () => {
    await withoutSessions(30);
    await refuse(database, "heart", "true");
    const turn = await beginSweep(store, {
      id: newReplicaId(),
      isReplica: true,
      gapMs: 10_000,
    });
    expect(turn).toMatchObject({ refusedCount: 30 });
    expect(turn.refused).toHaveLength(20);
  });
});

test.each([
  ["beat_at", "infinity"],
  ["beat_at", "-infinity"],
  ["session_free_since", "-infinity"],
])(
  "%s cannot be set to %s by hand: older servers cannot tell how long ago that is, and no heart would be judged",
  async (column, time) => {
    await withoutSessions(1);
    const setTo = database.query(`update everbeat.heart set ${column} = '${time}'`);
    await expect(setTo).rejects.toMatchObject({ code: "23514" });
  },
);

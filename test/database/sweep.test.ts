/** What a sweep asks of the database: who is in doubt, and whose tasks have nobody left; right for every fleet. */
import fc from "fast-check";
import pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import type { Everbeat } from "../../src/everbeat.ts";
import { beginSweep, declareDead, readDoubtfulHearts } from "../../src/sql/hearts.ts";
import { findAbsentOwners } from "../../src/sql/recovery.ts";
import { newReplicaId, type ReplicaId } from "../../src/task/ids.ts";
import { openTestEverbeat, type TestDatabase } from "../support/database.ts";
import { pagesTouched } from "../support/pages-touched.ts";

let everbeat: Everbeat;
let database: TestDatabase;
beforeAll(async () => {
  ({ everbeat, database } = await openTestEverbeat());
});

interface Owner {
  readonly status: "online" | "draining" | "offline" | "dead" | "missing";
  readonly tasks: number;
}

/** Ids at both ends of their order, too: an owner may be below the first and above the last who is alive. */
const idOf = (place: number) => `${(place * 0x11111111).toString(16).padStart(8, "0")}-0000-7000-8000-000000000000`;

async function loadOwners(owners: readonly Owner[]): Promise<void> {
  await database.query("truncate everbeat.replica, everbeat.heart, everbeat.running, everbeat.machine");
  const values = owners.map((owner, place) => ({ id: idOf(place), ...owner }));
  await database.query(
    `with owner as (select * from json_to_recordset($1::json) as x (id uuid, status text, tasks int)), known as (
       insert into everbeat.replica (id, hostname, pid, version, tasks, status) select id, 'a', 1, '0', '{t}', status from owner where status <> 'missing'
     )
     insert into everbeat.running (claim_id, task_id, replica_id, state, name, queue, priority, run_at, gated, attempt, failures, crashes, claimed_at)
     select nextval('everbeat.claim_id'), gen_random_uuid(), id, 'claimed', 't', 'default', 0, now(), false, 1, 0, 0, now()
     from owner, generate_series(1, tasks)`,
    [JSON.stringify(values)],
  );
}

describe("the owners that a sweep finds absent", () => {
  const owner = fc.record({
    status: fc.constantFrom<Owner["status"]>("online", "draining", "offline", "dead", "missing"),
    tasks: fc.nat(2),
  });

  test("are all who have unfinished tasks and are dead, gone or unknown, each once, wherever they are among the living", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(owner, { maxLength: 16 }), async (owners) => {
        await loadOwners(owners);
        const found = await findAbsentOwners(everbeat.database);
        const expected = owners.flatMap(({ status, tasks }, place) =>
          tasks > 0 && status !== "online" && status !== "draining" ? [{ replicaId: idOf(place), status }] : [],
        );
        const told = found.map(({ replicaId, status }) => ({ replicaId, status }));
        expect(told.sort((a, b) => (a.replicaId < b.replicaId ? -1 : 1))).toEqual(expected);
      }),
      { numRuns: 60 },
    );
  });

  test("are looked for a twentieth of the time where that takes long, and at once after a death", async () => {
    const absent = async () => (await findAbsentOwners(everbeat.database)).map(({ status }) => status).sort();
    await loadOwners([{ status: "missing", tasks: 1 }]);
    await database.query("truncate everbeat.listening, everbeat.turn");
    await beginSweep(everbeat.database, {
      id: newReplicaId(),
      isReplica: true,
      gapMs: 60_000,
    });
    expect(await absent()).toEqual(["missing"]);
    // What was found may not have been put right.
    expect(await absent()).toEqual(["missing"]);
    const hasTaken = (took: string, since: string) =>
      database.query("update everbeat.listening set look_took = $1, looked_at = clock_timestamp() - $2::interval", [
        took,
        since,
      ]);
    await hasTaken("1 minute", "19 minutes");
    expect(await absent()).toEqual([]);
    await hasTaken("1 minute", "21 minutes");
    expect(await absent()).toEqual(["missing"]);
    // The server's clock was set back, or another server has taken over whose clock is behind.
    await hasTaken("1 minute", "-1 hour");
    expect(await absent()).toEqual(["missing"]);
    await loadOwners([
      { status: "dead", tasks: 1 },
      { status: "missing", tasks: 1 },
    ]);
    await hasTaken("1 minute", "1 minute");
    expect(await absent()).toEqual([]);
    await database.query("update everbeat.replica set died_at = clock_timestamp()");
    expect(await absent()).toEqual(["dead", "missing"]);
  });
});

test("whoever knows a claim and not its owner goes by those alive, or by all on record", async () => {
  await loadOwners([
    { status: "online", tasks: 0 },
    { status: "draining", tasks: 1 },
    { status: "offline", tasks: 1 },
    { status: "dead", tasks: 0 },
  ]);
  const owners = async (argument: string) =>
    (await database.query<{ o: string[] }>(`select everbeat.owners(${argument})::text[] as o`))[0]?.o.sort();
  expect(await owners("")).toEqual([idOf(0), idOf(1)]);
  expect(await owners("false")).toEqual([idOf(0), idOf(1), idOf(2), idOf(3)]);
});

test("a sweep looks at its fleet and not at every task, nor at everyone who has ever been, whatever statistics say", async () => {
  const [living, gone, tasksEach] = [200, 5_000, 200];
  await loadOwners([]);
  await database.query("vacuum analyze everbeat.replica, everbeat.running, everbeat.heart");
  await database.query(
    `insert into everbeat.replica (id, hostname, pid, version, tasks, status)
     select gen_random_uuid(), 'a', 1, '0', '{t}', case when n <= $1::int then 'online' else 'offline' end from generate_series(1, $1::int + $2::int) n`,
    [living, gone],
  );
  await database.query(
    `insert into everbeat.running (claim_id, task_id, replica_id, state, name, queue, priority, run_at, gated, attempt, failures, crashes, claimed_at)
     select nextval('everbeat.claim_id'), gen_random_uuid(), id, 'running', 't', 'default', 0, now(), false, 1, 0, 0, now()
     from everbeat.replica, generate_series(1, $1::int) where status = 'online'`,
    [tasksEach],
  );
  const client = new pg.Client(database.url);
  await client.connect();
  // Again and again, so that the cached plan has gone generic. A probe is a few pages of an index.
  for (let round = 0; round < 8; round++)
    expect(await pagesTouched(client, "select * from everbeat.absent_owners()")).toBeLessThan(living * 5);
  await client.end();
});

describe("the hearts that a sweep is told of", () => {
  const reaper = newReplicaId();
  const sweep = () => beginSweep(everbeat.database, { id: reaper, isReplica: true, gapMs: 60_000 });

  /** One replica per entry, on the machine of that name, whose heart was last heard so many seconds ago. */
  async function loadFleet(
    fleet: readonly { machine: string | null; ago: number; session?: "taken" | "left"; status?: string }[],
  ): Promise<void> {
    await database.query(
      "truncate everbeat.replica, everbeat.heart, everbeat.machine, everbeat.listening, everbeat.turn",
    );
    await sweep();
    await database.query("update everbeat.listening set hearing_since = now() - interval '1 hour'");
    const values = fleet.map((one, place) => ({ id: idOf(place), status: "online", ...one }));
    await database.query(
      `with one as (select * from json_to_recordset($1::json) as x (id uuid, status text, machine text, ago int, session text)), known as (
         insert into everbeat.replica (id, hostname, pid, version, tasks, status, machine_id, started_at)
         select id, 'a', 1, '0', '{t}', status, machine, now() - interval '1 hour' from one
       )
       insert into everbeat.heart (replica_id, beat_at, epoch, interval_ms, promise_ms, session_promise_ms, session_key, session_epoch)
       select id, now() - make_interval(secs => ago), everbeat.current_epoch(), 2000, 10000, 500, everbeat.session_key(id),
              case when session is not null then everbeat.current_epoch() end from one`,
      [JSON.stringify(values)],
    );
  }

  test("are none where all are heard, however long others have been gone", async () => {
    await loadFleet([
      { machine: "a", ago: 1 },
      { machine: "a", ago: 600, status: "offline" },
      { machine: "b", ago: 600, status: "dead" },
    ]);
    expect(await readDoubtfulHearts(everbeat.database, { silentFromMs: 6_000, doSessionsCount: true })).toEqual([]);
  });

  test("are the silent ones, with how many machines there are and whether their own is well", async () => {
    await loadFleet([
      { machine: "a", ago: 1 },
      { machine: "a", ago: 7 },
      { machine: "b", ago: 8 },
      { machine: "b", ago: 9, status: "draining" },
      { machine: null, ago: 10 },
      { machine: "c", ago: 2 },
      { machine: "d", ago: 600, status: "dead" },
    ]);
    const found = await readDoubtfulHearts(everbeat.database, { silentFromMs: 6_000, doSessionsCount: true });
    expect(found.sort((a, b) => a.silentForMs - b.silentForMs)).toMatchObject([
      { replicaId: idOf(1), machineId: "a", machines: 4, isMachineWell: true },
      { replicaId: idOf(2), machineId: "b", machines: 4, isMachineWell: false },
      { replicaId: idOf(3), machineId: "b", machines: 4, isMachineWell: false, status: "draining" },
      { replicaId: idOf(4), machineId: null, machines: 4, isMachineWell: false },
    ]);
  });

  test("are also those whose session has ended, and no longer when it is back", async () => {
    await loadFleet([
      { machine: "a", ago: 0, session: "left" },
      { machine: "b", ago: 0, session: "taken" },
    ]);
    await everbeat.database.transaction(async (tx) => {
      await tx.query("select pg_advisory_xact_lock_shared(everbeat.session_key($1))", [idOf(1)]);
      await sweep();
      const found = await readDoubtfulHearts(everbeat.database, { silentFromMs: 60_000, doSessionsCount: true });
      expect(found).toMatchObject([{ replicaId: idOf(0), sessionFreeForMs: expect.any(Number), isMachineWell: false }]);
      await tx.query("select pg_advisory_xact_lock_shared(everbeat.session_key($1))", [idOf(0)]);
      await sweep();
      expect(await readDoubtfulHearts(everbeat.database, { silentFromMs: 60_000, doSessionsCount: true })).toEqual([]);
    });
  });

  describe("where the server's clock was set back", () => {
    const silentFor = async (ms: number) =>
      (await readDoubtfulHearts(everbeat.database, { silentFromMs: ms, doSessionsCount: true }))
        .map(({ replicaId }) => replicaId)
        .sort();
    /** As if the clock had been that far ahead at the last sweep. */
    const sweptAhead = (by: string) =>
      database.query("update everbeat.listening set swept_at = clock_timestamp() + $1::interval", [by]);
    const holds = async () => (await everbeat.recovery.listening())?.holds ?? [];
    const hearingSince = async () => (await everbeat.recovery.listening())?.hearingSince.getTime() ?? 0;

    test.each(["5 seconds", "1 hour"])("by %s, no source is held for longer than it would have been", async (by) => {
      await loadFleet([{ machine: "a", ago: 0 }]);
      await database.query(
        `insert into everbeat.hold (source, counted, since, renewed_at, kept_for) values
           ('hearts', 'machines', clock_timestamp() + $1::interval, clock_timestamp() + $1::interval, '1 minute'),
           ('imports', 'owners', clock_timestamp() + $1::interval, clock_timestamp() + $1::interval, '1 minute'),
           ('exports', 'owners', clock_timestamp() - interval '1 minute', clock_timestamp() + $1::interval, '1 minute')`,
        [by],
      );
      await sweptAhead(by);
      await sweep();
      const heldForMs = (await holds()).map(({ since }) => Date.now() - since.getTime());
      expect(heldForMs.map((ms) => Math.round(ms / 10_000))).toEqual([6, 0, 0]);
      const keptMs = await database.query<{ ms: number }>(
        "select extract(epoch from renewed_at + kept_for - clock_timestamp())::float8 * 1000 as ms from everbeat.hold",
      );
      expect(Math.max(...keptMs.map(({ ms }) => ms))).toBeLessThanOrEqual(60_000);
      await database.query("truncate everbeat.hold");
    });

    test("are heard as of now, and not until it has come that far again", async () => {
      await loadFleet([
        { machine: "a", ago: 1 },
        { machine: "b", ago: -3_600, session: "left" },
        { machine: "c", ago: -3_600 },
        { machine: "c", ago: -3_600, status: "dead" },
      ]);
      await database.query("update everbeat.heart set session_free_since = beat_at where session_epoch is not null");
      await database.query("update everbeat.replica set started_at = now() + interval '1 hour'");
      await sweptAhead("1 hour");
      await sweep();
      expect(await silentFor(6_000)).toEqual([idOf(1)]);
      await database.query(
        `with hearts as (update everbeat.heart set beat_at = beat_at - interval '7 seconds' where replica_id <> $1)
         update everbeat.listening set hearing_since = hearing_since - interval '7 seconds'`,
        [idOf(0)],
      );
      await database.query("update everbeat.heart set beat_at = clock_timestamp() where replica_id = $1", [idOf(0)]);
      await sweep();
      expect(await silentFor(6_000)).toEqual([idOf(1), idOf(2)]);
      const [left] = await readDoubtfulHearts(everbeat.database, { silentFromMs: 60_000, doSessionsCount: true });
      expect(left).toMatchObject({ replicaId: idOf(1), sessionFreeForMs: expect.any(Number) });
      expect(left?.sessionFreeForMs).toBeGreaterThanOrEqual(0);
      // What is on record of the dead stays there.
      const [dead] = await database.query(
        "select from everbeat.heart where replica_id = $1 and beat_at > now() + interval '50 minutes'",
        [idOf(3)],
      );
      expect(dead).toBeDefined();
    });

    test("are listened to from then on, also where a long sweep had said by that clock that it listened", async () => {
      await loadFleet([
        { machine: "a", ago: 0 },
        { machine: "b", ago: 0 },
      ]);
      await sweptAhead("1 hour");
      await database.query("update everbeat.listening set listened_at = swept_at");
      await sweep();
      const since = await hearingSince();
      await database.query("update everbeat.heart set beat_at = clock_timestamp()");
      await sweep();
      expect(await hearingSince()).toBe(since);
    });

    test("during a sweep, are none: those that have beaten since would seem to be silent for as long as it was set back", async () => {
      await loadFleet([
        { machine: "a", ago: 0 },
        { machine: "b", ago: 600 },
      ]);
      expect(await silentFor(6_000)).toEqual([idOf(1)]);
      await sweptAhead("1 hour");
      expect(await silentFor(6_000)).toEqual([]);
      const verdict = { minMs: 6_000, death: { because: "silent" } } as const;
      expect(await declareDead(everbeat.database, idOf(0) as ReplicaId, verdict)).toBe(false);
      await sweep();
      await database.query("update everbeat.listening set hearing_since = now() - interval '1 hour'");
      expect(await silentFor(6_000)).toEqual([idOf(1)]);
      expect(await declareDead(everbeat.database, idOf(0) as ReplicaId, verdict)).toBe(false);
      expect(await declareDead(everbeat.database, idOf(1) as ReplicaId, verdict)).toBe(true);
    });

    test("by a little, again and again, are no less silent for it; by more, all are listened to anew", async () => {
      await loadFleet([
        { machine: "a", ago: 0 },
        { machine: "b", ago: 600 },
      ]);
      const before = await hearingSince();
      for (let times = 0; times < 3; times++) {
        await sweptAhead("2 seconds");
        await sweep();
      }
      expect(await hearingSince()).toBe(before);
      expect(await silentFor(6_000)).toEqual([idOf(1)]);
      await sweptAhead("20 seconds");
      await sweep();
      expect(await hearingSince()).toBeGreaterThan(before);
      expect(await silentFor(6_000)).toEqual([]);
    });
  });
});

/** Where the server may have lost its memory a new epoch begins, and claim ids go on above everything that was ever issued. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { createTestDatabase, openTestEverbeat } from "../support/database.ts";
import { createDocumentedRole } from "../support/documented-role.ts";
import { eventually } from "../support/eventually.ts";

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const claimer = handClaimer(everbeat.database, ["noop"]);

const epoch = async () =>
  (await database.query<{ epoch: string }>("select everbeat.current_epoch() as epoch"))[0]?.epoch;
const isKnown = async (query: typeof database.query = database.query) =>
  (await query<{ known: boolean }>("select everbeat.known_epoch() is not null as known"))[0]?.known;
const setIds = (to: number) => database.query("select setval('everbeat.claim_id', $1)", [to]);
/** Microseconds since 2020, by the clock of the database. */
const clock = async () =>
  Number(
    (
      await database.query<{ us: string }>(
        "select floor(extract(epoch from clock_timestamp() - timestamptz '2020-01-01 00:00:00+00') * 1000000)::text as us",
      )
    )[0]?.us,
  );

async function nextClaimId(): Promise<number> {
  const queue = randomUUID();
  await everbeat.enqueue(noop, 1, { queue });
  const [task] = await claimer.claim({ queues: [queue], room: [null] });
  return Number(task?.claimId);
}

/** All that a crash, a promotion or a restored base backup leaves of an unlogged table. */
const endEpoch = () => database.query("delete from everbeat.epoch_marker");

describe("the ids of claims", () => {
  test("go on one by one within an epoch", async () => {
    const first = await nextClaimId();
    expect(await nextClaimId()).toBe(first + 1);
  });

  test("go on, in a new epoch, above all that a sequence which was set back can have issued", async () => {
    await nextClaimId();
    const before = await clock();
    await endEpoch();
    await setIds(1);
    const id = await nextClaimId();
    expect(id).toBeGreaterThan(before);
    expect(id).toBeLessThan(Number.MAX_SAFE_INTEGER);
    expect(await nextClaimId()).toBe(id + 1);
  });

  test("are above them also where somebody else than a claim is the first to speak in the new epoch", async () => {
    const before = await clock();
    await endEpoch();
    await setIds(1);
    await epoch();
    expect(await nextClaimId()).toBeGreaterThan(before);
  });

  test("jump ahead where the clock was set back: those that were forgotten lie just behind the last that is known", async () => {
    const ahead = (await clock()) + 3_600_000_000;
    await setIds(ahead);
    await endEpoch();
    const id = await nextClaimId();
    expect(id).toBeGreaterThan(ahead + 1_000_000_000);
    expect(id).toBeLessThan(ahead + 2_000_000_002);
    await setIds(1);
    await endEpoch();
  });

  test("go on above those of another server, whose rows came by logical replication, once a replica joins", async () => {
    const theirs = (await nextClaimId()) + 1_000;
    await database.query(
      "update everbeat.running set claim_id = $1 where claim_id = (select max(claim_id) from everbeat.running)",
      [theirs],
    );
    const before = await epoch();
    expect(await database.query("select everbeat.joining_epoch()")).not.toEqual([{ joining_epoch: before }]);
    expect(await nextClaimId()).toBeGreaterThan(theirs);
    const after = await epoch();
    expect(await database.query("select everbeat.joining_epoch()")).toEqual([{ joining_epoch: after }]);
  });

  test("go on above them also where that server's clock was ahead, and the next replica that joins begins no other epoch", async () => {
    const theirs = (await clock()) + 7_200_000_000;
    const id = await nextClaimId();
    await database.query("update everbeat.running set claim_id = $1 where claim_id = $2", [theirs, id]);
    await database.query("select everbeat.joining_epoch()");
    expect(await nextClaimId()).toBeGreaterThan(theirs);
    const after = await epoch();
    expect(await database.query("select everbeat.joining_epoch()")).toEqual([{ joining_epoch: after }]);
    await database.query("delete from everbeat.running where claim_id >= $1", [theirs]);
    await setIds(1);
    await endEpoch();
  });

  test("go on above the attempts that came with them, whose ids must not be drawn again", async () => {
    const theirs = (await nextClaimId()) + 5_000;
    await database.query(
      `insert into everbeat.attempt (claim_id, task_id, replica_id, attempt, claimed_at, ended_at, outcome)
       values ($1, gen_random_uuid(), gen_random_uuid(), 1, now(), now(), 'failed')`,
      [theirs],
    );
    await database.query("select everbeat.joining_epoch()");
    expect(await nextClaimId()).toBeGreaterThan(theirs);
  });

  test("are not drawn before an epoch that somebody else begins at this moment has put them ahead", async () => {
    const client = new pg.Client(database.url);
    await client.connect();
    onTestFinished(() => client.end());
    await endEpoch();
    await setIds(1);
    await client.query("begin");
    await client.query("select everbeat.current_epoch()");
    const { rows } = await client.query("select last_value::text as id from everbeat.claim_id");
    const claiming = nextClaimId();
    await eventually(() => database.query("select from pg_locks where not granted and locktype = 'transactionid'"), {
      until: (waiting) => waiting.length > 0,
      what: "a claim that waits for the epoch",
    });
    await client.query("commit");
    expect(await claiming).toBe(Number(rows[0].id) + 1);
  });
});

describe("an epoch", () => {
  test("is the same for everybody who asks, in a name of one length", async () => {
    const first = await epoch();
    expect(first).toHaveLength(14);
    expect(await epoch()).toBe(first);
    await endEpoch();
    const second = await epoch();
    expect(second).toHaveLength(14);
    expect(second).not.toBe(first);
  });

  test("can begin inside a savepoint", async () => {
    await endEpoch();
    const client = new pg.Client(database.url);
    await client.connect();
    onTestFinished(() => client.end());
    await client.query("begin");
    await client.query("savepoint a");
    await client.query("select everbeat.current_epoch()");
    await client.query("commit");
    expect(await isKnown()).toBe(true);
  });

  test("is not that of a server which was started since, as a cold copy of a stopped one is", async () => {
    await epoch();
    await database.query("update everbeat.epoch_marker set server_start = server_start - interval '1 second'");
    await database.query("update everbeat.epoch_marker set writer = xmin");
    expect(await isKnown()).toBe(false);
  });

  test("is not that of a marker that was put back, as a dump is which is restored into its own tables", async () => {
    await epoch();
    const [marker] = await database.query<{ row: string }>("select m::text as row from everbeat.epoch_marker m");
    await database.query("delete from everbeat.epoch_marker");
    await database.query("insert into everbeat.epoch_marker select ($1::everbeat.epoch_marker).*", [marker?.row]);
    expect(await isKnown()).toBe(false);
    await epoch();
    expect(await isKnown()).toBe(true);
  });

  test("is not that of a copy of the database in the same server", async () => {
    const original = await createTestDatabase();
    const opened = await Everbeat.open({ database: original.url, log: "silent" });
    await original.query("select everbeat.current_epoch()");
    await opened.close();
    const copy = `${original.name}_copy`;
    onTestFinished(async () => {
      await database.query(`drop database if exists ${copy} with (force)`);
      await original.drop();
    });
    await database.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", [original.name]);
    await eventually(() => database.query(`create database ${copy} template ${original.name}`).then(() => true));
    const copyUrl = new URL(original.url);
    copyUrl.pathname = `/${copy}`;
    const client = new pg.Client(copyUrl.href);
    await client.connect();
    const { rows } = await client.query(
      "select everbeat.known_epoch() is null as unknown, (select count(*)::int from everbeat.epoch_marker) as markers",
    );
    await client.end();
    expect(rows).toEqual([{ unknown: true, markers: 1 }]);
  });

  test("begins with the rights that the documentation grants, and no others", async () => {
    const { url } = await createDocumentedRole(database);
    await endEpoch();
    await setIds(1);
    const before = await clock();
    const client = new pg.Client(url);
    await client.connect();
    onTestFinished(() => client.end());
    await client.query("select everbeat.current_epoch()");
    expect(await nextClaimId()).toBeGreaterThan(before);
  });
});

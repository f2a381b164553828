/** Another source of silence, over tables of a user's, goes through the same sweep as hearts and stalls: nothing of the mechanism knows of it. */
import pg from "pg";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { Events } from "../../src/events.ts";
import { PassedBy } from "../../src/recovery/passed-by.ts";
import { sweepSilence } from "../../src/recovery/silence-sweep.ts";
import { openTestEverbeat } from "../support/database.ts";
import { IMPORT_TABLES, ImportRuns } from "../support/import-runs.ts";
import { anHourLater } from "../support/sweeping.ts";

const { everbeat, database } = await openTestEverbeat();
await database.query(IMPORT_TABLES);
beforeEach(async () => {
  await database.query("truncate import_log, import_run, import_owner restart identity cascade");
  await database.query("truncate everbeat.alert");
  await anHourLater(everbeat.database);
});

function source(store = everbeat.database): ImportRuns {
  const parts = { database: everbeat.database, events: new Events(() => {}), onError: () => {} };
  return new ImportRuns(store, new PassedBy({ service: "sweep", part: "imports" }, parts));
}

/** Runs that began half an hour ago, each of which last said something so many minutes ago. */
async function runs(...saidAgo: number[]) {
  for (const [index, minutes] of saidAgo.entries()) {
    await database.query("insert into import_owner (name) values ($1)", [`owner-${index}`]);
    await database.query("insert into import_run (owner, started_at) values ($1, now() - interval '30 minutes')", [
      `owner-${index}`,
    ]);
    await database.query("insert into import_log values ($1, now() - make_interval(mins => $2))", [index + 1, minutes]);
  }
}

const statuses = async () =>
  (await database.query<{ status: string }>("select status from import_run order by id")).map(({ status }) => status);

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(database.url);
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

test("it warns, acts on the dead and tells, each once, and what follows goes by what is on record", async () => {
  await runs(1, 5, 20);
  const imports = source();
  await sweepSilence(imports);
  await sweepSilence(imports);
  expect(await statuses()).toEqual(["running", "running", "failed"]);
  expect(imports.told).toEqual(["import 2 is stale", "import 3 failed"]);
  const owners = await database.query<{ status: string }>("select status from import_owner order by name");
  expect(owners.map(({ status }) => status)).toEqual(["online", "online", "offline"]);
});

test("our own outage makes nobody silent", async () => {
  await runs(20, 20);
  await database.query("update everbeat.listening set hearing_since = now()");
  const imports = source();
  await sweepSilence(imports);
  expect(await statuses()).toEqual(["running", "running"]);
  expect(imports.told).toEqual([]);
});

test("a sign that is committed between the look and the write saves it", async () => {
  await runs(20, 20);
  const imports = source({
    ...everbeat.database,
    async transaction(work) {
      await database.query("insert into import_log values (1)");
      return everbeat.database.transaction(work);
    },
  });
  await sweepSilence(imports);
  expect(await statuses()).toEqual(["running", "failed"]);
  expect(imports.told).toEqual(["import 2 failed"]);
});

test("one whose sign is being written is left for the next sweep, and holds up no other", async () => {
  await runs(20, 20);
  const writer = await connect();
  await writer.query("begin");
  await writer.query("insert into import_log values (1)");
  const imports = source();
  await sweepSilence(imports);
  expect(await statuses()).toEqual(["running", "failed"]);
  await writer.query("rollback");
  await sweepSilence(imports);
  expect(await statuses()).toEqual(["failed", "failed"]);
});

test("one that cannot be written is passed by, told of once, and acted on when it can be", async () => {
  await runs(20, 20);
  await database.query(
    "alter table import_run add constraint stays check (id <> 1 or status = 'running' or failed_because is null)",
  );
  const imports = source();
  await sweepSilence(imports);
  expect(await statuses()).toEqual(["running", "failed"]);
  expect(await everbeat.alerts.list({ open: true })).toMatchObject([
    { kind: "sweep-passed-by", subject: "failing import 1", message: expect.stringContaining("stays") },
  ]);
  await database.query("alter table import_run drop constraint stays");
  await sweepSilence(source());
  expect(await statuses()).toEqual(["failed", "failed"]);
  expect(await everbeat.alerts.list({ open: true })).toEqual([]);
});

test("where most owners fall silent at once it holds, and acts when the hold is over", async () => {
  await runs(1, 20, 20, 20);
  const imports = source();
  await sweepSilence(imports);
  expect(await statuses()).toEqual(["running", "running", "running", "running"]);
  expect(imports.told).toEqual(["held for 0 ms: 3 of 4"]);
  imports.guard.hasEnded = true;
  await sweepSilence(imports);
  expect(await statuses()).toEqual(["running", "failed", "failed", "failed"]);
});

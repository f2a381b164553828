/** Another source of silence, over tables of a user's, goes through the same sweep as hearts and stalls: nothing of the mechanism knows of it. */
import pg from "pg";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { HEARTS } from "../../src/alert-kinds.ts";
import { Events } from "../../src/events.ts";
import { PassedBy } from "../../src/recovery/passed-by.ts";
import { RememberedGuard } from "../../src/recovery/remembered-guard.ts";
import { sweepSilence } from "../../src/recovery/silence-sweep.ts";
import { raiseAlert, resolveEndedAlerts } from "../../src/sql/alerts.ts";
import { beginHold } from "../../src/sql/holds.ts";
import { newReplicaId } from "../../src/task/ids.ts";
import { holding } from "../support/crash-database.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { HOLD_MS, IMPORT_TABLES, IMPORTS, ImportRuns } from "../support/import-runs.ts";
import { massDeath } from "../support/mass-death.ts";
import { anHourLater, sweeper } from "../support/sweeping.ts";

const { everbeat, database } = await openTestEverbeat();
const told: object[] = [];
await database.query(IMPORT_TABLES);
beforeEach(async () => {
  await database.query("truncate import_log, import_run, import_owner restart identity cascade");
  await database.query("truncate everbeat.alert, everbeat.hold");
  await anHourLater(everbeat.database);
});

/** As whoever sweeps next has it: nothing is known of what another has seen. */
function source(store = everbeat.database): ImportRuns {
  const events = new Events(() => {});
  events.onAny((event, fields) => {
    if (event.startsWith("recovery.")) told.push({ event, ...fields });
  });
  const parts = { database: everbeat.database, events, replica: { id: newReplicaId() }, onError: () => {} };
  return new ImportRuns(store, new PassedBy({ service: "sweep", part: "imports" }, parts), parts);
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

test("a source whose name cannot be typed is refused", () => {
  const parts = { database: everbeat.database, events: new Events(() => {}), replica: { id: newReplicaId() } };
  const guard = (name: string) =>
    new RememberedGuard(parts, {
      ...{ source: name, counted: "owners", everyMs: 1_000, policy: { share: 0.5, atLeast: 3, holdMs: HOLD_MS } },
      memberOf: () => ({ group: "", groups: 1, isWell: true, isGroupWell: true }),
    });
  expect(guard("my-imports")).toBeInstanceOf(RememberedGuard);
  for (const name of ["my imports", "", "--confirm"])
    expect(() => guard(name)).toThrow(expect.objectContaining({ code: "INVALID_OPTIONS" }));
});

describe("where most owners fall silent at once", () => {
  const HELD = ["running", "running", "running", "running"];
  const ACTED = ["running", "failed", "failed", "failed"];
  const holds = async () => (await everbeat.recovery.listening())?.holds ?? [];
  const namesOfHolds = async () => (await holds()).map((hold) => hold.source);
  const openAlerts = async () => (await everbeat.alerts.list({ open: true })).map(({ subject }) => subject);
  const passed = (ms: number) =>
    database.query("update everbeat.hold set since = since - make_interval(secs => $1::float8 / 1000)", [ms]);

  async function massSilence(): Promise<void> {
    await runs(1, 20, 20, 20);
    told.length = 0;
    await sweepSilence(source());
    expect(await statuses()).toEqual(HELD);
  }

  test("it holds, and tells once whose hold it is, and why", async () => {
    await massSilence();
    await sweepSilence(source());
    expect(await statuses()).toEqual(HELD);
    const hold = { source: IMPORTS, counted: "owners", groups: 4, dying: 3, heldForMs: 0, isConfirmed: false };
    const heldForMs = expect.any(Number);
    expect(told).toEqual([{ event: "recovery.held", ...hold, heldForMs }]);
    expect(await everbeat.alerts.list({ open: true })).toEqual([
      expect.objectContaining({
        ...{ kind: "mass-death", subject: IMPORTS, details: { ...hold, heldForMs } },
        message: "3 of 4 owners fell silent at once; recovery (imports) is held for up to 1m.",
      }),
    ]);
    expect(await holds()).toEqual([
      { source: IMPORTS, counted: "owners", since: expect.any(Date), isConfirmed: false },
    ]);
  });

  test("whoever sweeps next goes on with the same hold, and acts when it is over", async () => {
    await massSilence();
    const [before] = await holds();
    await sweepSilence(source());
    expect(await holds()).toEqual([before]);
    await passed(HOLD_MS - 5_000);
    await sweepSilence(source());
    expect(await statuses()).toEqual(HELD);
    await passed(5_001);
    await sweepSilence(source());
    expect(await statuses()).toEqual(ACTED);
    await sweepSilence(source());
    expect(told.at(-1)).toEqual({ event: "recovery.resumed", source: IMPORTS, replicaId: expect.any(String) });
    expect(await holds()).toEqual([]);
  });

  /** As if its sweeps had ended that long ago. */
  const sweptAgo = (ago: string) =>
    database.query("update everbeat.hold set renewed_at = clock_timestamp() - $1::interval", [ago]);
  const lockedHold = () => holding(database.url, `select from everbeat.hold where source = '${IMPORTS}' for update`);

  test("however long it lasts, it is the same hold while somebody sweeps", async () => {
    await massSilence();
    for (let times = 0; times < 3; times++) {
      await passed(HOLD_MS / 3 - 1_000);
      await sweptAgo("50 seconds");
      await sweepSilence(source());
      expect(await statuses()).toEqual(HELD);
    }
    await passed(3_001);
    await sweepSilence(source());
    expect(await statuses()).toEqual(ACTED);
  });

  test.each([
    ["not confirmed", null],
    ["confirmed", new Date()],
  ])("one that was left behind a day ago, %s, is none: the next mass silence is held", async (_, confirmedAt) => {
    await database.query(
      `insert into everbeat.hold (source, counted, since, confirmed_at, renewed_at, kept_for)
       values ($1, 'owners', now() - interval '1 day', $2, now() - interval '1 day', '1 minute')`,
      [IMPORTS, confirmedAt],
    );
    await raiseAlert(everbeat.database, { ...massDeath(), subject: IMPORTS, part: IMPORTS });
    expect(await holds()).toEqual([]);
    expect(await everbeat.recovery.confirmDeaths()).toEqual([]);
    await resolveEndedAlerts(everbeat.database);
    expect(await openAlerts()).toEqual([]);
    await massSilence();
    expect(told).toMatchObject([{ event: "recovery.held", heldForMs: expect.closeTo(0, -4), isConfirmed: false }]);
    await sweepSilence(source());
    expect(await statuses()).toEqual(HELD);
    expect(await holds()).toMatchObject([{ source: IMPORTS, isConfirmed: false }]);
    expect(await everbeat.recovery.confirmDeaths()).toEqual([IMPORTS]);
  });

  test("a lock on its row makes it last no longer, and no sweep fails for it", async () => {
    await massSilence();
    await passed(HOLD_MS - 5_000);
    await sweptAgo("50 seconds");
    const { release } = await lockedHold();
    await sweepSilence(source());
    expect(await statuses()).toEqual(HELD);
    await release();
    await passed(5_001);
    const again = await lockedHold();
    await sweepSilence(source());
    expect(await statuses()).toEqual(ACTED);
    await again.release();
    expect(await openAlerts()).toEqual([IMPORTS]);
  });

  test("where it cannot be renewed for a lock, whoever sweeps acts when it is over by its own clock", async () => {
    await massSilence();
    await passed(HOLD_MS - 3_000);
    const sweeping = source();
    await sweepSilence(sweeping);
    expect(await statuses()).toEqual(HELD);
    await sweptAgo("1 day");
    const { release } = await lockedHold();
    // Another knows nothing of it, and waits.
    await sweepSilence(source());
    await sweepSilence(sweeping);
    expect(await statuses()).toEqual(HELD);
    await eventually(async () => {
      await sweepSilence(sweeping);
      return (await statuses()).includes("failed");
    });
    expect(await statuses()).toEqual(ACTED);
    await release();
  });

  test("a word on it says soon that its row is locked, and what was confirmed besides", async () => {
    await massSilence();
    await beginHold(everbeat.database, { source: HEARTS, counted: "machines", keptMs: 60_000 });
    const { release } = await lockedHold();
    const said = { code: "HOLD_LOCKED", kind: "not-now", locked: [IMPORTS], confirmed: [HEARTS] };
    await expect(everbeat.recovery.confirmDeaths()).rejects.toMatchObject(said);
    await release();
    expect(await everbeat.recovery.confirmDeaths({ source: IMPORTS })).toEqual([IMPORTS]);
  });

  test("an operator confirms the hold of this source, and of no other", async () => {
    await massSilence();
    await beginHold(everbeat.database, { source: HEARTS, counted: "machines", keptMs: 60_000 });
    expect(await everbeat.recovery.confirmDeaths({ source: HEARTS })).toEqual([HEARTS]);
    await sweepSilence(source());
    expect(await statuses()).toEqual(HELD);
    await beginHold(everbeat.database, { source: "exports", counted: "owners", keptMs: 60_000 });
    expect(await everbeat.recovery.confirmDeaths({ source: IMPORTS })).toEqual([IMPORTS]);
    await sweepSilence(source());
    expect(await statuses()).toEqual(ACTED);
    expect((await holds()).filter(({ isConfirmed }) => !isConfirmed).map((hold) => hold.source)).toEqual(["exports"]);
    expect(await everbeat.recovery.confirmDeaths()).toEqual(["exports", HEARTS, IMPORTS]);
    await expect(everbeat.recovery.confirmDeaths({ source: "" })).rejects.toMatchObject({ code: "INVALID_OPTIONS" });
  });

  test("a confirmation is over with its hold", async () => {
    await massSilence();
    await everbeat.recovery.confirmDeaths();
    await database.query("insert into import_log select id from import_run");
    await sweepSilence(source());
    expect(await holds()).toEqual([]);
    await database.query("update import_log set said_at = now() - interval '20 minutes' where run_id > 1");
    await sweepSilence(source());
    expect(await statuses()).toEqual(HELD);
    expect(await holds()).toMatchObject([{ source: IMPORTS, isConfirmed: false }]);
  });

  test("the hearts are not held with it, and their sweeps end neither its hold nor its alert", async () => {
    await massSilence();
    const reaper = sweeper(everbeat.database);
    await reaper.sweep();
    expect(reaper.told).toEqual([]);
    expect(await namesOfHolds()).toEqual([IMPORTS]);
    expect(await openAlerts()).toEqual([IMPORTS]);
    await database.query("insert into import_log select id from import_run");
    await sweepSilence(source());
    expect(await namesOfHolds()).toEqual([]);
    // Who ends a hold makes no verdict wait for an alert: a sweep over the hearts sees that it is over.
    await anHourLater(everbeat.database);
    await reaper.sweep();
    expect(await openAlerts()).toEqual([]);
  });

  test("the hold of the hearts is not ended with it, and nor is their alert", async () => {
    await massSilence();
    await beginHold(everbeat.database, { source: HEARTS, counted: "machines", keptMs: 60_000 });
    await raiseAlert(everbeat.database, massDeath());
    await database.query("insert into import_log select id from import_run");
    await sweepSilence(source());
    expect(await namesOfHolds()).toEqual([HEARTS]);
    await resolveEndedAlerts(everbeat.database);
    expect(await openAlerts()).toEqual([HEARTS]);
  });
});

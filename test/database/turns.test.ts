/** Turns on record that are odd: of another epoch, from the future, locked, refused, or of a run that does not end. */
import pg from "pg";
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { Everbeat } from "../../src/everbeat.ts";
import { resolveEndedAlerts } from "../../src/sql/alerts.ts";
import { newReplicaId } from "../../src/task/ids.ts";
import { openTestEverbeat, type TestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { startTaker } from "../support/turn-takers.ts";

const DIGEST = { name: "digest", everyMs: 100 } as const;
const OTHER = { name: "other", everyMs: 100 } as const;

let everbeat: Everbeat;
let database: TestDatabase;
beforeAll(async () => {
  ({ everbeat, database } = await openTestEverbeat());
});
beforeEach(() => database.query("truncate everbeat.turn, everbeat.alert"));

const turn = async () => (await everbeat.services()).cluster.find(({ service }) => service === "digest");

/** As if a process that is gone were at it. */
function heldByGhost(service: string, { epoch = "everbeat.current_epoch()", at = "now()" } = {}) {
  return database.query(
    `insert into everbeat.turn (service, token, epoch, taken_at, taken_by, taken_on, every_ms, held_until)
     values ($1, gen_random_uuid(), ${epoch}, ${at}, '${newReplicaId()}', 'gone', 100, ${at} + interval '5 seconds')`,
    [service],
  );
}

async function transaction() {
  const client = new pg.Client(database.url);
  client.on("error", () => {});
  await client.connect();
  onTestFinished(() => client.end());
  await client.query("begin");
  return client;
}

/** From now on nobody can write this turn. */
async function refuseTurn(service: string) {
  await database.query(`create function public.refuse() returns trigger language plpgsql as $$
    begin raise exception 'not this one' using errcode = '23514'; end $$`);
  await database.query(
    `create trigger refuse before insert or update on everbeat.turn for each row when (new.service = '${service}') execute function public.refuse()`,
  );
  const allow = () => database.query("drop function if exists public.refuse() cascade");
  onTestFinished(async () => void (await allow()));
  return allow;
}

describe("a turn that somebody gone holds", () => {
  const startedBeforeHeldTimeIsOver = async () => {
    const beganMs = performance.now();
    const taker = startTaker(everbeat.database, [DIGEST]);
    await taker.runsAgain("digest");
    return performance.now() - beganMs < 4_000;
  };

  test("is waited for until its time has run out", async () => {
    await heldByGhost("digest");
    expect(await startedBeforeHeldTimeIsOver()).toBe(false);
  });

  test("is not waited for where it lies in the future, because the clock was set back", async () => {
    await heldByGhost("digest", { at: "now() + interval '1 hour'" });
    expect(await startedBeforeHeldTimeIsOver()).toBe(true);
  });

  test("is not waited for where it is of another epoch", async () => {
    await heldByGhost("digest", { epoch: "'before'" });
    expect(await startedBeforeHeldTimeIsOver()).toBe(true);
  });
});

describe("a turn that its process has", () => {
  test("stays its own where the clock is set back by an hour between two runs", async () => {
    const taker = startTaker(everbeat.database, [DIGEST]);
    await taker.runsAgain("digest");
    await database.query("update everbeat.turn set taken_at = taken_at + interval '1 hour'");
    await taker.runsAgain("digest", 3);
    expect(Math.abs((await turn())?.takenAgoMs ?? Number.POSITIVE_INFINITY)).toBeLessThan(10_000);
  });

  test("is run on in the next epoch", async () => {
    const taker = startTaker(everbeat.database, [DIGEST]);
    await taker.runsAgain("digest");
    await database.query("update everbeat.turn set epoch = 'before'");
    await taker.runsAgain("digest", 3);
    const [{ isOfNow } = {}] = await database.query<{ isOfNow: boolean }>(
      `select epoch = everbeat.current_epoch() as "isOfNow" from everbeat.turn`,
    );
    expect(isOfNow).toBe(true);
  });
});

describe("a turn that is locked", () => {
  test("is passed by: the other services go on, nothing is asked without a pause, and it is run again afterwards", async () => {
    const taker = startTaker(everbeat.database, [DIGEST, OTHER]);
    await taker.runsAgain("digest", 2);
    const client = await transaction();
    await client.query("select from everbeat.turn where service = 'digest' for update");
    // One that was under way.
    await taker.runsAgain("other", 2);
    const before = { digest: taker.runs("digest"), asked: taker.asked() };
    await taker.runsAgain("other", 10);
    expect(taker.runs("digest")).toBe(before.digest);
    // Each run of the other one is a question, and between two of them the locked one is asked for a few times.
    expect(taker.asked() - before.asked).toBeLessThan(60);
    await client.query("rollback");
    await taker.runsAgain("digest", 2);
  });

  test("and not on record yet holds up no other", async () => {
    const client = await transaction();
    await client.query("insert into everbeat.turn (service, epoch, every_ms) values ('digest', '', 0)");
    const taker = startTaker(everbeat.database, [DIGEST, OTHER]);
    await taker.runsAgain("other", 3);
    await client.query("rollback");
    await taker.runsAgain("digest", 2);
  });
});

test("the end of a run whose turn is locked just then is on record later", async () => {
  let end = () => {};
  const first = new Promise<void>((resolve) => {
    end = resolve;
  });
  onTestFinished(end);
  let digests = 0;
  // The second goes on until it is asked to end, so what is on record then is of the first.
  const untilAsked = (signal: AbortSignal) =>
    new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
  const run = (signal: AbortSignal) => (++digests === 1 ? first : untilAsked(signal));
  const taker = startTaker(everbeat.database, [{ ...DIGEST, run }, OTHER]);
  await taker.runsAgain("digest");
  const client = await transaction();
  await client.query("select from everbeat.turn where service = 'digest' for update");
  end();
  await taker.runsAgain("other", 5);
  await client.query("rollback");
  await taker.runsAgain("digest");
  expect(await turn()).toMatchObject({ isRunning: true, error: null, tookMs: expect.any(Number) });
});

test("a process that goes over to another id takes no turn meanwhile, nor asks without a pause; then it takes turns under its new id", async () => {
  const one = startTaker(everbeat.database, [DIGEST]);
  await one.runsAgain("digest", 2);
  const arrive = one.move();
  const other = startTaker(everbeat.database, [DIGEST]);
  await other.runsAgain("digest", 2);
  const before = { runs: one.runs("digest"), looked: one.looked() };
  await other.runsAgain("digest", 10);
  expect(one.runs("digest")).toBe(before.runs);
  // About one for each run of the other.
  expect(one.looked() - before.looked).toBeLessThan(50);
  arrive();
  await other.stop();
  await one.runsAgain("digest", 2);
  expect((await turn())?.takenBy).toBe(one.id);
});

describe("a turn that the database refuses", () => {
  test("is told of, the other services go on, and it is run again when it is taken", async () => {
    const taker = startTaker(everbeat.database, [DIGEST, OTHER]);
    await taker.runsAgain("digest", 2);
    const allow = await refuseTurn("digest");
    await eventually(() => taker.errors.length > 0);
    await taker.runsAgain("other", 10);
    expect(new Set(taker.errors.map(({ doing }) => doing))).toEqual(new Set(["digest"]));
    await allow();
    await taker.runsAgain("digest", 2);
  });

  test("while it is under way stops no other service", async () => {
    let letGo = () => {};
    const held = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    const taker = startTaker(everbeat.database, [{ ...DIGEST, run: () => held }, OTHER]);
    onTestFinished(letGo);
    await taker.runsAgain("other", 2);
    await refuseTurn("digest");
    await taker.runsAgain("other", 10);
    expect(taker.runs("digest")).toBe(1);
  });

  test("with the end of its run loses the other services no run", async () => {
    const taker = startTaker(everbeat.database, [
      { ...DIGEST, run: () => Promise.reject(new Error("digest fails")) },
      OTHER,
    ]);
    await taker.runsAgain("digest");
    await refuseTurn("digest");
    await taker.runsAgain("other", 10);
    const other = (await everbeat.services()).cluster.find(({ service }) => service === "other");
    expect(other).toMatchObject({ error: null, failures: 0, tookMs: expect.any(Number) });
  });
});

describe("a run that does not end, though it was asked to", () => {
  async function stuckRun() {
    let end = () => {};
    const isOver = new Promise<void>((resolve) => {
      end = resolve;
    });
    const one = startTaker(everbeat.database, [{ ...DIGEST, run: () => isOver }, OTHER], 200);
    // Before it is stopped.
    onTestFinished(end);
    await eventually(() => one.runs("digest") === 1);
    return { one, end };
  }
  const open = () => everbeat.alerts.list({ open: true, kind: "service-stuck" });

  test("is told of by an alert, which names its process, and is over when the run is", async () => {
    const { one, end } = await stuckRun();
    const [alert] = (await eventually(open, { until: (alerts) => alerts.length === 1, within: 12_000 })) ?? [];
    expect(alert).toMatchObject({ severity: "warning", details: { service: "digest", replicaId: one.id } });
    expect(alert?.message).toMatch(/"digest".*process \d+ on /);
    expect(one.runs("digest")).toBe(1);
    end();
    await eventually(async () => (await open()).length === 0);
    await one.runsAgain("digest", 2);
  });

  test("leaves its service to others, and the other services of its process go on", async () => {
    const { one } = await stuckRun();
    const other = startTaker(everbeat.database, [DIGEST, OTHER]);
    await other.runsAgain("digest", 3);
    expect(await turn()).toMatchObject({ takenBy: other.id, error: null });
    expect(one.runs("digest")).toBe(1);
    await other.stop();
    await one.runsAgain("other", 2);
  });

  test("holds up the end of its process for a moment only", async () => {
    const { one } = await stuckRun();
    const beganMs = performance.now();
    await one.stop();
    expect(performance.now() - beganMs).toBeLessThan(8_000);
  });

  test("is over for the record where its process is gone", async () => {
    await stuckRun();
    await eventually(async () => (await open()).length === 1, { within: 12_000 });
    await database.query("update everbeat.alert set last_raised_at = now() - interval '16 minutes'");
    await resolveEndedAlerts(everbeat.database);
    expect(await open()).toEqual([]);
  });
});

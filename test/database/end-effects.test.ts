/**
 * What follows the end of a task, by whichever way it ends: whoever waits for its result and whoever follows it are told by a notice, the alert about its
 * stall is resolved, and what was parked behind its key is let go. With each part of that switched off, its effect is missing: nothing else
 * brings it about.
 */
import { readFileSync } from "node:fs";
import pg from "pg";
import { afterAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import type { TaskUpdate } from "../../src/following/follow.ts";
import type { TaskId } from "../../src/task/ids.ts";
import { emptyTables } from "../model/tables.ts";
import { changeFunction } from "../support/changed-function.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { type EndedAs, type WayToEnd, waysToEnd } from "../support/ways-to-end.ts";

/** How many wait for a notice at this moment. */
const asleep = vi.hoisted(() => ({ count: 0 }));

// Nobody here looks again by himself: whoever is told was told by a notice.
vi.mock(import("../../src/database/wake-up.ts"), async (importActual) => {
  const { wakeUp } = await importActual();
  return {
    wakeUp() {
      const bell = wakeUp();
      return {
        ring: bell.ring,
        async wait(_ms, signal) {
          asleep.count++;
          await bell.wait(3_600_000, signal).finally(() => asleep.count--);
        },
      };
    },
  };
});

const { everbeat, database } = await openTestEverbeat();
const { ways, noop, claimer } = waysToEnd({ everbeat, database });

/** Whoever waits and follows does so in another Everbeat, with connections of its own, as in another process. */
const other = await Everbeat.open({ database: database.url, log: "silent" });
/** Every notice, as it comes. */
const notices: string[] = [];
const listener = new pg.Client(database.url);
await listener.connect();
listener.on("notification", ({ payload = "" }) => notices.push(payload));
await listener.query("listen everbeat");
afterAll(() => Promise.all([other.close({ now: true }), listener.end()]));

beforeEach(() => emptyTables(everbeat.database));

/** Of each task, in their order. */
interface Effects {
  /** What whoever waits for its result was answered. */
  readonly answered: string[];
  /** What whoever follows it was told, up to its end. */
  readonly told: string[];
  /** Whether the alert about its stall was resolved in the transaction that ended it. */
  readonly alerts: string[];
  /** Whether what is parked behind its key was let go. */
  readonly keys: string[];
}

/** What brings an effect about: in which function, where, and what stands there if it is switched off. */
type Part = readonly (readonly [name: string, find: string, replace: string])[];

const PARTS: Record<keyof Effects, Part> = {
  answered: [["after_end", "perform tell_waiters(p_ended)", "null"]],
  told: [["after_end", "perform tell_of_ends(p_ended, p_again)", "null"]],
  alerts: [["after_end", "perform resolve_alerts_of('task-stalled', (p_ended || p_again)::text[])", "null"]],
  keys: [
    ["end_claims", "from unpark(v_keys)", "from (select '{}'::tid[] as let_go, true as are_free) nothing"],
    // Upkeep lets go by itself what is parked behind a free key.
    ["run_upkeep", "unpark_every_kind(p_batch)", "0"],
  ],
};

/**
 * Ends tasks this way, while somebody waits for each of them, follows it, and is parked behind its key, and an alert about it is open. `off`: what is
 * switched off while they end.
 */
async function effectsOf({ as, prepare }: WayToEnd, off: Part = []): Promise<Effects> {
  const { tasks, end } = await prepare();
  const behind: (TaskId | undefined)[] = [];
  for (const task of tasks) behind.push(await parkBehind(task));
  const raise = "select everbeat.raise_alert('task-stalled', t, 'It has stalled.', '{}') from unnest($1::text[]) t";
  await database.query(raise, [[...tasks, "another task"]]);
  const leaving = new AbortController();
  onTestFinished(async () => {
    leaving.abort();
    await eventually(() => asleep.count === 0, { what: "nobody waits" });
  });
  const { signal } = leaving;
  const waiting = tasks.map((task) => stateOf(other.result(task, { timeout: "1h", signal })));
  const streams = tasks.map((task) => other.follow(task, { signal }));
  for (const stream of streams) expect(await stream.next()).toMatchObject({ value: { kind: "state" } });
  // Each of those who wait, and the one that looks for all that is followed.
  await eventually(() => asleep.count === tasks.length + 1, { what: "everybody waits for a notice" });

  const word = await wordToFollowers(tasks);
  const restore: (() => Promise<void>)[] = [];
  for (const part of off) restore.push(await changeFunction(database, ...part));
  await end();
  for (const one of restore.reverse()) await one();
  const heard = await noticesUpToNow();
  // Who was sent a notice is waited for until the test's time is over; to all others nothing can come.
  const effects = await inOrder(tasks, async (task, at) => ({
    answered: heard.includes(`ended ${task}`) ? await waiting[at] : "nothing",
    told:
      heard.some((notice) => word.includes(notice)) && (await isWritten(task))
        ? await toldBy(streams[at] as Stream, as[at] as EndedAs)
        : "nothing",
    alerts: await alertOf(task),
    keys: await keyOf(behind[at]),
  }));
  expect(await alertOf("another task")).toBe("open");

  // Whoever has not been told of an end goes on.
  await everbeat.tasks.cancel([...tasks]);
  for (const [at, task] of tasks.entries()) {
    const goesOn = as[at] === "again";
    if (goesOn) expect(await toldBy(streams[at] as Stream, "cancelled")).toMatch(/cancelled$/);
    else await database.query("select everbeat.notify_all('ended', $1)", [task]);
    expect(await waiting[at]).toBe(goesOn ? "cancelled" : as[at]);
  }
  return effects;
}

type Stream = AsyncIterableIterator<TaskUpdate, undefined>;

/** Undefined: it has no key that it keeps from others. */
async function parkBehind(task: TaskId): Promise<TaskId | undefined> {
  const keys = "select exclusive_key as key from everbeat.running where task_id = $1";
  const [{ key } = { key: null }] = await database.query<{ key: string | null }>(keys, [task]);
  if (key === null) return undefined;
  const id = await everbeat.enqueue(noop, 1, { exclusiveKey: key, queue: "behind" });
  await claimer.claim({ queues: ["behind"], room: [null] });
  expect(await keyOf(id)).toBe("kept");
  return id;
}

async function keyOf(behind: TaskId | undefined): Promise<string> {
  if (behind === undefined) return "none";
  const rows = await database.query("select from everbeat.parked where task_id = $1", [behind]);
  return rows.length > 0 ? "kept" : "free";
}

async function alertOf(task: string): Promise<string> {
  const [row] = await database.query<{ how: string }>(
    `select case when a.resolved_at is null then 'open'
                 when a.resolved_at in (select ended_at from everbeat.ended where task_id::text = $1 union all
                                        select ended_at from everbeat.attempt where task_id::text = $1) then 'resolved with it'
                 else 'resolved later' end as how
     from everbeat.alert a where a.subject = $1`,
    [task],
  );
  return row?.how ?? "not there";
}

async function isWritten(task: TaskId): Promise<boolean> {
  const text = "select from everbeat.happening where topic = $1 and kind in ('ended', 'pending')";
  return (await database.query(text, [`task ${task}`])).length > 0;
}

/** What the other Everbeat is told by, while it follows these tasks. */
async function wordToFollowers(tasks: readonly TaskId[]): Promise<string[]> {
  const text = "select distinct 'happened ' || follower as word from everbeat.followed where topic = any ($1)";
  const rows = await database.query<{ word: string }>(text, [tasks.map((task) => `task ${task}`)]);
  return rows.map(({ word }) => word);
}

/** Notices come in the order of commits, so these are all that were sent. */
async function noticesUpToNow(): Promise<string[]> {
  const last = `that is all ${Math.random()}`;
  await database.query("select pg_notify('everbeat', $1)", [last]);
  await eventually(() => notices.includes(last));
  return notices.splice(0, notices.length);
}

function stateOf(result: Promise<unknown>): Promise<string> {
  return result.then(
    () => "completed",
    (error) => error.state ?? String(error),
  );
}

/** Up to the end of the stream; or of a task that waits again, up to that word. */
async function toldBy(stream: Stream, as: EndedAs): Promise<string> {
  const told: string[] = [];
  for (let next = await stream.next(); !next.done; next = await stream.next()) {
    const { kind } = next.value;
    if (kind === "ended") told.push(next.value.state);
    if (kind === "pending") told.push("again");
    if (as === "again" && kind === "pending") break;
  }
  return told.join();
}

/** One list for each property. */
async function inOrder(
  tasks: readonly TaskId[],
  look: (task: TaskId, at: number) => Promise<Record<keyof Effects, string | undefined>>,
): Promise<Effects> {
  const looks: Record<keyof Effects, string | undefined>[] = [];
  for (const [at, task] of tasks.entries()) looks.push(await look(task, at));
  const of = (name: keyof Effects) => looks.map((one) => String(one[name]));
  return { answered: of("answered"), told: of("told"), alerts: of("alerts"), keys: of("keys") };
}

/** What is missing without the part that brings it about. */
const MISSING: Record<keyof Effects, string> = { answered: "nothing", told: "nothing", alerts: "open", keys: "kept" };
const NAMES = Object.keys(PARTS) as (keyof Effects)[];

function allEffects(who: string, { as, were }: WayToEnd): Effects {
  return {
    answered: as.map((state) => (state === "again" ? "nothing" : state)),
    told: [...as],
    // A transaction with an old snapshot leaves alerts to the next sweep: it would fail on one that has changed since.
    alerts: as.map(() => (who.includes("old snapshot") ? "open" : "resolved with it")),
    keys: as.map(() => (were === "waiting" ? "none" : "free")),
  };
}

/** Without the part that brings this effect about. */
function missing(name: keyof Effects, effects: Effects): string[] {
  return effects[name].map((effect) => (effect === "none" ? effect : MISSING[name]));
}

describe.each(Object.entries(ways))("by %s", (who, way) => {
  const all = allEffects(who, way);

  test("everybody is told whom it concerns, and what was in its way goes on", async () => {
    expect(await effectsOf(way)).toEqual(all);
  });

  test("nothing of that happens by another way than the hook's", async () => {
    const nothing = Object.fromEntries(NAMES.map((name) => [name, missing(name, all)]));
    expect(await effectsOf(way, Object.values(PARTS).flat())).toEqual(nothing);
  });
});

test.each(NAMES)("without its part, %s alone is missing", async (name) => {
  const [who, way] = Object.entries(ways)[1] as [string, WayToEnd];
  const all = allEffects(who, way);
  expect(await effectsOf(way, PARTS[name])).toEqual({ ...all, [name]: missing(name, all) });
});

test("nothing else hangs on the end of a task: what does is to be asked for here", () => {
  const text = readFileSync(new URL("../../migrations/routines/end/after_end.sql", import.meta.url), "utf8");
  const known = Object.values(PARTS).flat();
  const calls = [...text.matchAll(/perform .*(?=;)/g)].map(([call]) => call);
  expect(calls).toEqual(known.flatMap(([name, find]) => (name === "after_end" ? find : [])));
});

/** Counters at their limits: attempts, failures and crashes stop counting there, and nothing else stops with them. */
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery } from "../../src/config/recovery-options.ts";
import { Events } from "../../src/events.ts";
import { PostMortems } from "../../src/recovery/post-mortems.ts";
import { recoverTasksOf } from "../../src/recovery/recover.ts";
import { endBlockedReplica } from "../../src/sql/blocked-loops.ts";
import type { ClaimedTask } from "../../src/sql/claims.ts";
import { beginSweep } from "../../src/sql/hearts.ts";
import { guardClaim, type Outcome } from "../../src/sql/outcomes.ts";
import { endStalled } from "../../src/sql/stalls.ts";
import { forgiveCrash } from "../../src/sql/suspicion.ts";
import { runUpkeep } from "../../src/sql/upkeep.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { newReplicaId, type ReplicaId, type TaskId } from "../../src/task/ids.ts";
import { completed, handClaimer, releaseClaims } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { unique } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
const settings = checkRecovery({}, new Problems());
const SMALL = 32_767;
const LAST = 2_147_483_647;
const BUDGET = 3;

interface Counts {
  readonly attempt: number;
  readonly failures: number;
  readonly crashes: number;
}

/** Tasks that have been tried so often, side by side. */
interface Scene {
  readonly ids: readonly TaskId[];
  readonly counts: readonly Counts[];
  readonly worker: ReturnType<typeof handClaimer>;
  /** In the order of `ids`; none while they are pending. */
  readonly claims: readonly ClaimedTask[];
}

interface Way {
  /** What they are when it begins (default: running). */
  readonly from?: "pending" | "claimed";
  /** One task only, not several side by side. */
  readonly alone?: boolean;
  /** What its definition says. */
  readonly definition?: object;
  /** Only one of them may run at a time. */
  readonly isExclusive?: boolean;
  readonly act: (scene: Scene) => Promise<unknown>;
  /** What becomes of a task with these counts, beside the others. */
  readonly becomes: (counts: Counts, all: readonly Counts[]) => Partial<Counts> & { state: string };
}

const more = (count: number) => Math.min(count + 1, LAST);
const again = ({ attempt }: Counts) => ({ state: "pending", attempt: more(attempt) });
const unchanged = (state: string) => () => ({ state });
const ERROR = { code: "X", message: "x" };

/** All of them end in this way, in one statement. */
const ends = (outcomeOf: (counts: Counts) => Omit<Outcome, "claim" | "task" | "replica">) => (scene: Scene) =>
  scene.worker.end(outcomesOf(scene, outcomeOf));

/** A task that stands out among those that were at a crash, and has been at as many as its budget allows, is convicted. */
function afterCrash(counts: Counts, all: readonly Counts[]): Partial<Counts> & { state: string } {
  const { crashes } = counts;
  const isAlone = all.length === 1;
  const standsOut = all.every((other) => other === counts || other.crashes < crashes);
  if (standsOut && crashes + 1 >= BUDGET) return { state: "failed", crashes: more(crashes) };
  return { ...again(counts), ...(isAlone ? { crashes: more(crashes) } : {}) };
}

const STALLED: Omit<Way, "act" | "becomes"> = { definition: { stalledAfterMs: 1_000 } };

/** Each way in which an attempt ends, or a task moves without one. */
const WAYS: Record<string, Way> = {
  "completes without a result": { act: ends(completes("null")), becomes: unchanged("completed") },
  "completes with a result": { act: ends(completes("1")), becomes: unchanged("completed") },
  "completes in a transaction of its own": {
    act: (scene) =>
      everbeat.database.transaction(async (tx) => {
        for (const claim of scene.claims) await guardClaim(tx, claim, completed(claim, scene.worker.replicaId));
      }),
    becomes: unchanged("completed"),
  },
  "fails for good": {
    act: ends(({ failures }) => ({ to: "failed", outcome: "failed", failures: failures + 1, error: ERROR })),
    becomes: ({ failures }) => ({ state: "failed", failures: more(failures) }),
  },
  "fails and is retried": {
    act: ends(({ failures }) => ({
      to: "pending",
      outcome: "failed",
      failures: failures + 1,
      delayMs: 0,
      error: ERROR,
    })),
    becomes: (counts) => ({ ...again(counts), failures: more(counts.failures) }),
  },
  snoozes: { act: ends(() => ({ to: "pending", outcome: "snoozed", delayMs: 0 })), becomes: again },
  "is aborted": { act: ends(() => ({ to: "pending", outcome: "aborted", error: ERROR })), becomes: again },
  "dies with its runner": {
    act: ends(({ crashes }) => ({ to: "pending", outcome: "crashed", crashes: crashes + 1, delayMs: 0, error: ERROR })),
    becomes: (counts) => ({ ...again(counts), crashes: more(counts.crashes) }),
  },
  "dies with its worker, alone, and fails": {
    alone: true,
    definition: { onCrash: "fail" },
    act: crash,
    becomes: ({ crashes }) => ({ state: "failed", crashes: more(crashes) }),
  },
  "dies with its worker, beside others, and fails": {
    definition: { onCrash: "fail" },
    act: crash,
    becomes: ({ crashes }, all) => ({ state: "failed", crashes: all.length === 1 ? more(crashes) : crashes }),
  },
  ...Object.fromEntries(
    (["requeue", "retry"] as const).flatMap((onCrash): [string, Way][] => {
      const definition = { onCrash, crashBudget: BUDGET };
      return [
        [`dies with its worker, alone: ${onCrash}`, { alone: true, definition, act: crash, becomes: afterCrash }],
        [`dies with its worker, beside others: ${onCrash}`, { definition, act: crash, becomes: afterCrash }],
      ];
    }),
  ),
  "dies with a worker that was not dead": {
    alone: true,
    definition: { onCrash: "requeue", crashBudget: BUDGET },
    act: async (scene) => {
      await crash(scene);
      await forgiveCrash(everbeat.database, scene.worker.replicaId, "fenced");
    },
    becomes: (counts, all) =>
      afterCrash(counts, all).state === "failed"
        ? { ...again(counts), failures: 0, crashes: 0 }
        : { ...again(counts), crashes: counts.crashes },
  },
  "was held by a dead worker, and is failed by hand": {
    act: async ({ worker: { replicaId } }) => {
      await database.query("update everbeat.replica set status = 'dead' where id = $1", [replicaId]);
      await everbeat.recovery.failStaleRunning({ replicaId, after: 0 });
    },
    becomes: ({ crashes }) => ({ state: "failed", crashes: more(crashes) }),
  },
  "is ended with a process that is blocked": {
    act: (scene) =>
      endBlockedReplica(everbeat.database, scene.worker.replicaId, {
        outcomes: outcomesOf(scene, ({ failures }) => ({
          ...{ to: "pending", outcome: "failed", failures: failures + 1, delayMs: 0, error: ERROR },
        })),
        death: { because: "loop-blocked" },
      }),
    becomes: (counts) => ({ ...again(counts), failures: more(counts.failures) }),
  },
  "stalls and fails": {
    ...STALLED,
    act: stalls("failed"),
    becomes: ({ failures }) => ({ state: "failed", failures: more(failures) }),
  },
  "stalls and is retried": {
    ...STALLED,
    act: stalls("pending"),
    becomes: (counts) => ({ ...again(counts), failures: more(counts.failures) }),
  },
  "is cancelled while it waits": {
    from: "pending",
    act: ({ ids }) => everbeat.tasks.cancel(ids),
    becomes: ({ attempt }) => ({ state: "cancelled", attempt: attempt - 1 }),
  },
  "is cancelled while it is claimed": {
    from: "claimed",
    act: ({ ids }) => everbeat.tasks.cancel(ids),
    becomes: unchanged("cancelled"),
  },
  "is cancelled while it runs": {
    act: async (scene) => {
      await everbeat.tasks.cancel(scene.ids);
      await ends(() => ({ to: "pending", outcome: "snoozed", delayMs: 0 }))(scene);
    },
    becomes: unchanged("cancelled"),
  },
  "is cancelled by force": {
    act: async ({ ids }) => {
      await everbeat.tasks.cancel(ids, { grace: 0 });
      const overdue =
        "update everbeat.running set cancel_force_at = now() - interval '1 minute' where task_id = any ($1)";
      await database.query(overdue, [ids]);
      await runUpkeep(everbeat.database, 1_000);
    },
    becomes: unchanged("cancelled"),
  },
  expires: {
    from: "pending",
    act: async ({ ids }) => {
      await database.query("update everbeat.ready set expires_at = now() where task_id = any ($1)", [ids]);
      await runUpkeep(everbeat.database, 1_000);
    },
    becomes: ({ attempt }) => ({ state: "expired", attempt: attempt - 1 }),
  },
  "is given back": {
    from: "claimed",
    act: ({ claims, worker }) => releaseClaims(everbeat.database, claims, worker.replicaId),
    becomes: unchanged("pending"),
  },
  "is claimed by a worker that dies": { from: "claimed", act: crash, becomes: unchanged("pending") },
  "is taken away by force": { act: ({ ids }) => everbeat.tasks.retry(ids, { force: true }), becomes: again },
  "fails and is retried by hand": {
    act: async (scene) => {
      await ends(() => ({ to: "failed", outcome: "failed", error: ERROR }))(scene);
      await everbeat.tasks.retry(scene.ids);
    },
    becomes: (counts) => ({ ...again(counts), failures: 0, crashes: 0 }),
  },
  "waits for its exclusive key": {
    from: "pending",
    isExclusive: true,
    act: async ({ worker }) => {
      const [claimed] = await worker.claim();
      await noteWidest();
      if (claimed)
        await worker.end([{ ...refOf(claimed, worker), to: "pending", outcome: "snoozed", delayMs: 3_600_000 }]);
    },
    // Only the first of them was claimed.
    becomes: (counts, all) => (counts === all[0] ? again(counts) : { state: "pending" }),
  },
};

/** Near where a narrower type ends, and near where this one does. */
const count = fc.oneof(
  fc.integer({ min: 0, max: 3 }),
  fc.integer({ min: SMALL - 2, max: SMALL + 2 }),
  fc.integer({ min: LAST - 2, max: LAST }),
);
const counts = fc.record({ attempt: count.map((each) => Math.max(1, each)), failures: count, crashes: count });
const AT_LAST = { attempt: LAST, failures: LAST, crashes: LAST };

describe.each(Object.entries(WAYS))("a task that %s", (_, way) => {
  test("keeps or counts up its counts as far as they go, whatever they are, and can be claimed again", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(counts, { minLength: 1, maxLength: way.alone ? 1 : 4 }), async (all) => {
        const scene = await sceneOf(all, way);
        await noteWidest();
        await way.act(scene);
        await noteWidest();
        const expected = all.map((each) => ({ ...each, ...way.becomes(each, all) }));
        expect(await countsOf(scene.ids)).toEqual(expected);
        await claimAgain(scene, expected);
        const shown = await Promise.all(scene.ids.map((id) => everbeat.tasks.show(id)));
        expect(shown.map(({ state }) => state)).not.toContain("running");
      }),
      { numRuns: 6, examples: [[[AT_LAST]], ...(way.alone ? [] : ([[[AT_LAST, { ...AT_LAST }]]] as [Counts[]][]))] },
    );
  });
});

test("a task that was suspected of more crashes than can be counted holds up nobody", async () => {
  const scene = await sceneOf([AT_LAST, AT_LAST], { definition: { onCrash: "requeue" } });
  await database.query(
    `insert into everbeat.suspicion (task_id, replica_id, is_charged, is_apart)
     select $1, gen_random_uuid(), false, false from generate_series(1, 3)`,
    [scene.ids[0]],
  );
  expect(await crash(scene)).toHaveLength(2);
});

test.each([SMALL - 1, SMALL, LAST - 1, LAST])(
  "a task that fails in a worker for the %ith time is counted there too",
  async (n) => {
    const task = defineTask({ name: unique("fails"), run: () => Promise.reject(new Error("no")) });
    const id = await everbeat.enqueue(task, undefined, { delay: "1h" });
    await setCounts([id], [{ attempt: n, failures: n, crashes: 0 }]);
    const worker = await everbeat.work([task], { handleSignals: false, pollInterval: 200 });
    await expect(everbeat.result(id, { timeout: 20_000 })).rejects.toThrow("no");
    await worker.stop();
    expect(await countsOf([id])).toEqual([{ state: "failed", attempt: n, failures: more(n), crashes: 0 }]);
  },
);

/** Columns of whole numbers that are no counters of ours, and why none of them can overflow. */
const NO_COUNTERS: Readonly<Record<string, readonly string[]>> = {
  "a claim's id: 2^63 of them, and a new epoch begins at the microseconds since 2020": [
    ...["attempt.claim_id", "commit_check.claim_id", "ended.claim_id", "late.claim_id", "post_mortem.claim_id"],
    ...["progress.claim_id", "running.claim_id", "epoch_marker.last_claim", "happening.claim_id"],
    "replica.stopped_by",
  ],
  "a row's id: 2^63 of them": [
    ...["alert.id", "alert_delivery.alert_id", "blocked_loop.id", "happening.id", "happening_mark.last_id", "late.id"],
    ...["post_mortem.id", "unrest.id"],
  ],
  "how many tasks one process has in hand": ["crash.suspects", "crash.with_most"],
  "an option, bounded where it is given and by the type that takes it": [
    ...[
      "definition.priority",
      "lane.priority",
      "parked.priority",
      "ready.priority",
      "running.priority",
      "task.priority",
    ],
    ...["queue.concurrency", "queue.rate_limit", "task.exclusive_limit", "task.rate_limit", "upkeep.max_count"],
  ],
  "a duration, bounded where it is given (test/unit/durations.test.ts)": [
    ...[
      "replica.abort_grace_ms",
      "definition.stalled_after_ms",
      "heart.interval_ms",
      "heart.promise_ms",
      "heart.session_promise_ms",
    ],
    ...["queue.rate_per_ms", "task.rate_per_ms", "turn.every_ms", "upkeep.max_age_ms"],
  ],
  "less than its limit, which is an integer": ["rate.spent_rest"],
  "counted to 1000 and no further (rest_from_purge, end_turn)": ["not_purged.times", "turn.failures"],
  "at most twice a minute, or after growing pauses, for as long as one alert stays": [
    "alert.times",
    "alert_delivery.tries",
  ],
  "the operating system's": ["replica.pid", "runner.pid"],
  "a hash": ["heart.session_key"],
  "a part of a table, of which there are 2^27": ["ended_span.span"],
  "the number of a file": ["migration.version", "migration.compatible_from"],
  "signs, cut off at their limit (test/database/vitals.test.ts)": ["beat_history.signs", "heart.signs"],
};

describe("of all columns of whole numbers", () => {
  test("each is counted to its limit here, or listed with a reason", async () => {
    const columns = await database.query<{ name: string }>(
      `select table_name || '.' || column_name as name
       from information_schema.columns join information_schema.tables using (table_schema, table_name)
       where table_schema = 'everbeat' and table_type = 'BASE TABLE' and udt_name ~ '^_?int[248]$' order by 1`,
    );
    expect(columns.length).toBeGreaterThan(50);
    const listed = [...COUNTERS, ...Object.values(NO_COUNTERS).flat()];
    expect([...listed].sort()).toEqual(columns.map(({ name }) => name).sort());
  });

  test("the counters were at their limit in the tests above", () => {
    expect(Object.fromEntries(widest)).toEqual(Object.fromEntries(COUNTERS.map((column) => [column, LAST])));
  });
});

const COUNTERS = [
  ...["attempt", "ready", "parked", "running", "ended"].map((table) => `${table}.attempt`),
  ...["ready", "parked", "running", "ended"].flatMap((table) => [`${table}.failures`, `${table}.crashes`]),
  "crash.most",
];

/** The largest value that each counter has had. */
const widest = new Map<string, number>();

async function noteWidest(): Promise<void> {
  const columns = COUNTERS.map((column) => column.split("."));
  const [row = {}] = await database.query<Record<string, number | null>>(
    `select ${columns.map(([table, name]) => `(select max(${name}) from everbeat.${table}) as "${table}.${name}"`)}`,
  );
  for (const [column, value] of Object.entries(row)) widest.set(column, Math.max(widest.get(column) ?? 0, value ?? 0));
}

async function sceneOf(all: readonly Counts[], way: Pick<Way, "from" | "definition" | "isExclusive">): Promise<Scene> {
  const name = unique("counted");
  const task = defineTask({ name, run: (_input: null) => null });
  await database.query(
    "insert into everbeat.definition (name, settings, stalled_after_ms) values ($1, $2::json, ($2::json ->> 'stalledAfterMs')::bigint)",
    [name, JSON.stringify(way.definition ?? {})],
  );
  const options = way.isExclusive ? { exclusiveKey: randomUUID() } : {};
  const ids = (await everbeat.enqueueMany(
    task,
    all.map(() => null),
    { options },
  )) as TaskId[];
  await setCounts(ids, all);
  const worker = handClaimer(everbeat.database, [name]);
  if (way.from === "pending") return { ids, counts: all, worker, claims: [] };
  const claimed = await worker.claim(way.from === "claimed" ? { run: 0, prefetch: 100 } : {});
  const claims = ids.map((id) => claimed.find(({ taskId }) => taskId === id) as ClaimedTask);
  expect(claims.map(({ attempt, failures, crashes }) => ({ attempt, failures, crashes }))).toEqual(all);
  return { ids, counts: all, worker, claims };
}

/** As if it had come so far: it has been tried before, so its input is with its task. */
async function setCounts(ids: readonly TaskId[], all: readonly Counts[]): Promise<void> {
  await database.query(
    `update everbeat.ready r set attempt = x.attempt, failures = x.failures, crashes = x.crashes, input = null, run_at = now()
     from unnest($1::uuid[], $2::integer[], $3::integer[], $4::integer[]) x (id, attempt, failures, crashes) where r.task_id = x.id`,
    [ids, all.map(({ attempt }) => attempt), all.map(({ failures }) => failures), all.map(({ crashes }) => crashes)],
  );
}

async function countsOf(ids: readonly TaskId[]): Promise<(Counts & { state: string })[]> {
  const rows = await database.query<Counts & { state: string; id: TaskId }>(
    `select task_id as id, 'pending' as state, attempt, failures, crashes from everbeat.ready where task_id = any ($1)
     union all select task_id, 'pending', attempt, failures, crashes from everbeat.parked where task_id = any ($1)
     union all select task_id, state, attempt, failures, crashes from everbeat.running where task_id = any ($1)
     union all select task_id, state, attempt, failures, crashes from everbeat.ended where task_id = any ($1)`,
    [ids],
  );
  return ids.map((id) => {
    const { id: _, ...found } = rows.find((row) => row.id === id) as (typeof rows)[number];
    return found;
  });
}

/** Those that are pending: one after the other, as suspects and the holders of a key are. */
async function claimAgain({ ids }: Scene, expected: readonly (Counts & { state: string })[]): Promise<void> {
  const next = handClaimer(everbeat.database, [...(await namesOf(ids))]);
  const pending = ids.filter((_, nth) => expected[nth]?.state === "pending");
  for (const id of pending) {
    await database.query("delete from everbeat.suspicion where task_id = $1", [id]);
    await database.query("update everbeat.ready set run_at = now() where task_id = $1", [id]);
  }
  const taken = new Map<TaskId, ClaimedTask>();
  while (taken.size < pending.length) {
    const claimed = await next.claim();
    expect(claimed, `only ${taken.size} of ${pending.length} can be claimed`).not.toEqual([]);
    for (const claim of claimed) taken.set(claim.taskId, claim);
    await next.end(claimed.map((claim) => completed(claim, next.replicaId)));
  }
  for (const [nth, id] of ids.entries()) {
    const { state: _, ...known } = expected[nth] as Counts & { state: string };
    if (taken.has(id)) expect(taken.get(id)).toMatchObject(known);
  }
}

async function namesOf(ids: readonly TaskId[]): Promise<string[]> {
  const rows = await database.query<{ name: string }>("select distinct name from everbeat.task where id = any ($1)", [
    ids,
  ]);
  return rows.map(({ name }) => name);
}

function completes(resultJson: string): () => Omit<Outcome, "claim" | "task" | "replica"> {
  return () => ({ to: "completed", outcome: "completed", resultJson });
}

function outcomesOf(
  { claims, counts: all, worker }: Scene,
  outcomeOf: (counts: Counts) => Omit<Outcome, "claim" | "task" | "replica">,
): Outcome[] {
  return claims.map((claim, nth) => ({ ...refOf(claim, worker), ...outcomeOf(all[nth] as Counts) }));
}

function refOf({ claimId, taskId }: ClaimedTask, { replicaId }: Scene["worker"]) {
  return { claim: claimId, task: taskId, replica: replicaId };
}

/** The whole process: whatever it held is recovered. */
function crash({ worker: { replicaId } }: Scene) {
  const fail = (error: unknown) => {
    throw error;
  };
  const events = new Events(fail);
  events.on("post-mortem.failed", ({ error }) => fail(error));
  const postMortems = new PostMortems({ database: everbeat.database, events });
  return recoverTasksOf(
    { database: everbeat.database, events, settings, random: () => 0, postMortems },
    {
      ...{ replicaId, machineId: "m", hostname: "h", because: "session-lost" },
      ...{ silentForMs: 1_000, vitals: null },
    },
  );
}

function stalls(to: "failed" | "pending") {
  return async (scene: Scene) => {
    const sweeper = { id: newReplicaId() as ReplicaId, isReplica: false, gapMs: 60_000 };
    await beginSweep(everbeat.database, sweeper);
    await database.query("update everbeat.listening set hearing_since = now() - interval '1 hour'");
    await database.query(
      "update everbeat.running set started_at = now() - interval '1 hour' where task_id = any ($1)",
      [scene.ids],
    );
    const outcomes = outcomesOf(scene, ({ failures }) => ({
      ...{ to, outcome: "failed", failures: failures + 1, delayMs: 0, error: ERROR },
    }));
    await endStalled(
      everbeat.database,
      outcomes.map((outcome) => ({ outcome, stalledAfterMs: 1_000 })),
    );
  };
}

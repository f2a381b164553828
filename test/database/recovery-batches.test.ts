/** A dead worker with more tasks than a batch: they are put right, written about and told of side by side. */
import { setTimeout } from "node:timers/promises";
import { expect, test } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery } from "../../src/config/recovery-options.ts";
import type { Database } from "../../src/database/database.ts";
import { Events } from "../../src/events.ts";
import { PostMortems } from "../../src/recovery/post-mortems.ts";
import { recoverTasksOf } from "../../src/recovery/recover.ts";
import type { Death } from "../../src/recovery/recovery-action.ts";
import type { ClaimRequest } from "../../src/sql/claims.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const settings = checkRecovery({}, new Problems());
const [BATCH, TASKS] = [1_000, 2_500];

interface Telling {
  readonly taskId: string;
  readonly action: string;
  /** Asked in the moment it is told: by then it is on record. */
  readonly hasPostMortem: Promise<boolean>;
}

/** A worker that died with so many tasks, and what is told of their recovery by way of some database. */
async function deadWorker(name: string, claim: Partial<ClaimRequest> = { run: TASKS }) {
  const task = defineTask({ name, run: (_input: number) => null });
  const ids = await everbeat.enqueueMany(task, [...Array(TASKS).keys()]);
  const worker = handClaimer(everbeat.database, [name]);
  const claimed = await worker.claim(claim);
  expect(claimed).toHaveLength(TASKS);
  const death: Death = {
    ...{ replicaId: worker.replicaId, machineId: "m", hostname: "h" },
    ...{ because: "session-lost", silentForMs: 1_000, vitals: null },
  };
  const told: Telling[] = [];
  const recover = (by: Database, listen: (taskId: string) => void = () => {}, because = death.because) => {
    const fail = (error: unknown) => {
      throw error;
    };
    const events = new Events(fail);
    events.on("post-mortem.failed", ({ error }) => fail(error));
    events.on("task.recovered", ({ taskId, action }) => {
      const asked = database.query("select from everbeat.post_mortem where kind = 'attempt' and task_id = $1", [
        taskId,
      ]);
      told.push({ taskId, action, hasPostMortem: asked.then((rows) => rows.length === 1) });
      listen(taskId);
    });
    const postMortems = new PostMortems({ database: by, events });
    return recoverTasksOf({ database: by, events, settings, random: () => 0, postMortems }, { ...death, because });
  };
  const tellings = async () => {
    const all = await Promise.all(
      told.map(async ({ hasPostMortem, ...one }) => ({ ...one, has: await hasPostMortem })),
    );
    return { ids: all.map(({ taskId }) => taskId).sort(), without: all.filter(({ has }) => !has).length };
  };
  return { ids: [...ids].sort(), claimed, told, recover, tellings };
}

/** One that answers as ours does, but for the nth statement with these words. */
function failingAt(nth: number, words: string): Database {
  let met = 0;
  return {
    ...everbeat.database,
    async query(text, values, use) {
      if (text.includes(words) && ++met === nth) throw new Error(`not ${words}`);
      return everbeat.database.query(text, values, use);
    },
  };
}

const failed = async (name: string) =>
  (await database.query("select from everbeat.tasks where name = $1 and error ->> 'code' = 'WORKER_CRASHED'", [name]))
    .length;

test("each is put right and told of once, when its post-mortem can be read", async () => {
  const { ids, recover, tellings } = await deadWorker("many");
  const recovered = await recover(everbeat.database);
  expect(recovered.map(({ taskId }) => taskId).sort()).toEqual(ids);
  expect(await tellings()).toEqual({ ids, without: 0 });
  expect(await failed("many")).toBe(TASKS);
});

test.each([
  ["put right", "recover_claims"],
  ["read", "rules"],
])(
  "where the second batch cannot be %s, the first is told of all the same, and the rest by the next recovery",
  async (_, words) => {
    const name = `many-${words}`;
    const { ids, told, recover, tellings } = await deadWorker(name);
    const failsOnce = failingAt(2, words);
    await expect(recover(failsOnce)).rejects.toThrow(`not ${words}`);
    expect(told).toHaveLength(BATCH);
    expect(await failed(name)).toBe(BATCH);
    await recover(failsOnce);
    expect(await tellings()).toEqual({ ids, without: 0 });
  },
);

test("where a listener's error is an error of its own, all are put right and told of, and it is known", async () => {
  const { ids, told, recover, tellings } = await deadWorker("many-and-a-bad-logger");
  const complains = (taskId: string) => {
    if (taskId === told[BATCH - 1]?.taskId) throw new Error("the log is full");
  };
  // It comes while the next batch is being put right, and nobody waits for the telling.
  const takesItsTime: Database = {
    ...everbeat.database,
    async query(text, values, use) {
      if (text.includes("recover_claims")) await setTimeout(500);
      return everbeat.database.query(text, values, use);
    },
  };
  await expect(recover(takesItsTime, complains)).rejects.toThrow("the log is full");
  expect(await failed("many-and-a-bad-logger")).toBe(TASKS);
  expect(await tellings()).toEqual({ ids, without: 0 });
});

test("two that recover at the same time tell of each task once", async () => {
  const { ids, told, recover } = await deadWorker("many-claimed", { run: 0, prefetch: TASKS });
  await Promise.all([recover(everbeat.database), recover(everbeat.database)]);
  expect(told.map(({ taskId }) => taskId).sort()).toEqual(ids);
  expect(new Set(told.map(({ action }) => action))).toEqual(new Set(["released"]));
});

test("of two that recover at the same time, on other evidence, the second leaves no late outcome: it was no worker's", async () => {
  const { ids, told, recover } = await deadWorker("many-running");
  const first = recover(everbeat.database);
  await Promise.all([first, recover(everbeat.database, undefined, "silent")]);
  expect(told.map(({ taskId }) => taskId).sort()).toEqual(ids);
  expect(await database.query("select from everbeat.late where task_id = any ($1)", [ids])).toHaveLength(0);
});

test("one of the first that is convicted clears those of the batches after it, too", async () => {
  const name = "many-beside-a-culprit";
  await database.query("insert into everbeat.definition (name, settings) values ($1, $2::json)", [
    name,
    JSON.stringify({ onCrash: "requeue", crashBudget: 3 }),
  ]);
  const { claimed, told, recover } = await deadWorker(name);
  const culprit = claimed[0]?.taskId ?? "";
  await database.query(
    "insert into everbeat.suspicion (task_id, replica_id, is_charged, is_apart) select $1, gen_random_uuid(), false, true from generate_series(1, 2)",
    [culprit],
  );
  await recover(everbeat.database);
  expect(told.filter(({ action }) => action === "quarantined").map(({ taskId }) => taskId)).toEqual([culprit]);
  const suspected = await database.query<{ task: string }>(
    "select distinct task_id::text as task from everbeat.suspicion",
  );
  expect(suspected).toEqual([{ task: culprit }]);
});

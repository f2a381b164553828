/** Who may have killed a worker: what is kept of it, who may take whom, and how one is cleared. */
import { describe, expect, test } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery } from "../../src/config/recovery-options.ts";
import { Events } from "../../src/events.ts";
import { recoverTasksOf } from "../../src/recovery/recover.ts";
import type { Death } from "../../src/recovery/recovery-action.ts";
import { forgiveCrash, noteCrash } from "../../src/sql/suspicion.ts";
import { defineTask } from "../../src/task/define-task.ts";
import type { ReplicaId } from "../../src/task/ids.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const { everbeat, database } = await openTestEverbeat();
const settings = checkRecovery({}, new Problems());
const parts = {
  ...{ database: everbeat.database, settings, random: () => 0 },
  events: new Events((error) => {
    throw error;
  }),
};
let files = 0;

/** A kind of task of the test's own, which may be repeated. */
async function ownTask(options: { crashBudget?: number } = {}) {
  const name = `suspect-${files++}`;
  const task = defineTask({ name, run: (_input: unknown) => null });
  const record = JSON.stringify({ onCrash: "requeue", ...options });
  await database.query("insert into everbeat.definition (name, settings) values ($1, $2::json)", [name, record]);
  const worker = () => handClaimer(everbeat.database, [name]);
  return { task, worker };
}

const died = (replicaId: ReplicaId, given: Partial<Death> = {}): Death => ({
  ...{ replicaId, machineId: "m", hostname: "host-7", because: "session-lost", silentForMs: 1_000, vitals: null },
  ...given,
});
const recordOf = async (id: string) =>
  (
    await database.query<{ state: string; crashes: number; suspicion: number; apart: boolean | null }>(
      `select t.state, t.crashes, (select count(*)::int from everbeat.suspicion s where s.task_id = t.id and not s.is_charged) as suspicion,
              (select bool_or(s.is_apart) from everbeat.suspicion s where s.task_id = t.id) as apart
       from everbeat.tasks t where t.id = $1`,
      [id],
    )
  )[0];
type Worker = ReturnType<typeof handClaimer>;
const idsOf = (claimed: Awaited<ReturnType<Worker["claim"]>>) => claimed.map(({ taskId }) => taskId).sort();
/** A suspect that may not be taken is put off for a moment. */
async function claimSoon(worker: Worker, count: number): Promise<Awaited<ReturnType<Worker["claim"]>>> {
  const claimed: Awaited<ReturnType<Worker["claim"]>> = [];
  return eventually(
    async () => {
      claimed.push(...(await worker.claim()));
      return claimed;
    },
    { until: (all) => all.length === count },
  );
}

describe("of a process with several tasks", () => {
  test("all are suspected and none is charged; the one that was alone is charged", async () => {
    const { task, worker } = await ownTask();
    const ids = await everbeat.enqueueMany(task, [1, 2, 3]);
    const first = worker();
    await first.claim();
    await recoverTasksOf(parts, died(first.replicaId));
    for (const id of ids) {
      expect(await recordOf(id)).toEqual({ state: "pending", crashes: 0, suspicion: 1, apart: false });
    }
    const second = worker();
    const [alone] = await second.claim({ run: 1 });
    await recoverTasksOf(parts, died(second.replicaId));
    expect(await recordOf(alone?.taskId ?? "")).toEqual({ state: "pending", crashes: 1, suspicion: 1, apart: true });
  });

  test("a recovery that was broken off half way goes on as it began", async () => {
    const { task, worker } = await ownTask();
    const ids = await everbeat.enqueueMany(task, [1, 2]);
    const first = worker();
    const claimed = await first.claim();
    expect(await noteCrash(everbeat.database, first.replicaId)).toMatchObject({ suspects: 2, most: 0, withMost: 2 });
    // The other half was put right by a reaper that died after that.
    const [gone, left] = claimed;
    if (!gone || !left) throw new Error("two were claimed");
    await first.complete(gone);
    await recoverTasksOf(parts, died(first.replicaId));
    expect(ids).toContain(left.taskId);
    expect(await recordOf(left.taskId)).toMatchObject({ state: "pending", crashes: 0, suspicion: 1 });
  });

  test.each([
    ["was told to go", { wasDraining: true }],
    ["had left", { because: "offline" }],
    ["is back", { cameBack: true }],
  ] as const)("nobody is suspected where the process %s", async (_what, given) => {
    const { task, worker } = await ownTask();
    const ids = await everbeat.enqueueMany(task, [1, 2]);
    const first = worker();
    await first.claim();
    await recoverTasksOf(parts, died(first.replicaId, given));
    for (const id of ids) {
      expect(await recordOf(id)).toEqual({ state: "pending", crashes: 0, suspicion: 0, apart: null });
    }
  });
});

/** Two tasks that were at two crashes together: the next convicts. */
async function atTheirLastChance() {
  const { task, worker } = await ownTask();
  const ids = await everbeat.enqueueMany(task, [1, 2]);
  for (let crash = 0; crash < 2; crash++) {
    const victim = worker();
    expect(idsOf(await claimSoon(victim, 2))).toEqual([...ids].sort());
    await recoverTasksOf(parts, died(victim.replicaId));
  }
  for (const id of ids) expect(await recordOf(id)).toMatchObject({ crashes: 0, suspicion: 2, apart: true });
  return { task, worker, ids };
}

describe("a suspect at its last chance", () => {
  test("runs beside no other suspect, and beside those who are not", async () => {
    const { task, worker, ids } = await atTheirLastChance();
    const [one, other] = [worker(), worker()];
    const first = idsOf(await claimSoon(one, 1));
    expect(await one.claim()).toEqual([]);
    const fresh = await everbeat.enqueue(task, 3);
    expect(idsOf(await claimSoon(one, 1))).toEqual([fresh]);
    const second = idsOf(await claimSoon(other, 1));
    expect([...first, ...second].sort()).toEqual([...ids].sort());
  });

  test("is convicted by the next crash, and those who were at its crashes are cleared", async () => {
    const { task, worker, ids } = await atTheirLastChance();
    const victim = worker();
    const [guilty] = await claimSoon(victim, 1);
    const innocent = ids.find((id) => id !== guilty?.taskId) ?? "";
    const bystander = await everbeat.enqueue(task, 3);
    await claimSoon(victim, 1);
    await recoverTasksOf(parts, died(victim.replicaId));
    const poisoned = await everbeat.tasks.show(guilty?.taskId ?? "");
    expect(poisoned).toMatchObject({ state: "failed", attempt: 3, error: { code: "POISONED" } });
    for (const id of [innocent, bystander])
      expect(await recordOf(id)).toEqual({ state: "pending", crashes: 0, suspicion: 0, apart: null });
    expect(await everbeat.recovery.quarantine.list({ name: task.name })).toMatchObject([
      { id: guilty?.taskId, crashes: 3 },
    ]);

    await everbeat.tasks.retry([guilty?.taskId ?? ""]);
    expect(await recordOf(guilty?.taskId ?? "")).toEqual({ state: "pending", crashes: 0, suspicion: 0, apart: null });
    expect(idsOf(await claimSoon(worker(), 3))).toHaveLength(3);
  });
});

test("a definition's own budget counts before that of the settings", async () => {
  const { task, worker } = await ownTask({ crashBudget: 1 });
  const id = await everbeat.enqueue(task, 1);
  const first = worker();
  await first.claim();
  await recoverTasksOf(parts, died(first.replicaId));
  expect(await everbeat.tasks.show(id)).toMatchObject({ state: "failed", error: { code: "POISONED" } });
});

describe("a replica that comes back", () => {
  test("gives back what its death cost: charges, suspicions, and the quarantine", async () => {
    const { task, worker } = await ownTask({ crashBudget: 2 });
    const id = await everbeat.enqueue(task, 1);
    const first = worker();
    await first.claim();
    await recoverTasksOf(parts, died(first.replicaId));
    expect(await recordOf(id)).toMatchObject({ state: "pending", crashes: 1 });
    const second = worker();
    await claimSoon(second, 1);
    await recoverTasksOf(parts, died(second.replicaId));
    expect(await recordOf(id)).toMatchObject({ state: "failed", crashes: 2 });
    await forgiveCrash(everbeat.database, second.replicaId, "fenced");
    expect(await recordOf(id)).toMatchObject({ state: "pending", crashes: 0 });
  });

  test("takes one charge away from a task that waits or runs elsewhere", async () => {
    const { task, worker } = await ownTask({ crashBudget: 9 });
    const id = await everbeat.enqueue(task, 1);
    const first = worker();
    await first.claim();
    await recoverTasksOf(parts, died(first.replicaId));
    const second = worker();
    await claimSoon(second, 1);
    await forgiveCrash(everbeat.database, first.replicaId, "refused");
    expect(await recordOf(id)).toEqual({ state: "running", crashes: 0, suspicion: 0, apart: null });
  });
});

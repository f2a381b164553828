/** Scene: SIGKILL in the middle of its tasks. Nobody is told, and yet it is known in about a second, and they run elsewhere. */

import { formatDuration } from "../../config/duration.ts";
import type { ReplicaRow, TaskDetails, TaskSummary } from "../../index.ts";
import { shortCauseOf } from "../../recovery/recovery-action.ts";
import { readDeath } from "../../task/death.ts";
import { DemoFailedError } from "../errors.ts";
import type { Column } from "../table.ts";
import type { Scene, Stage } from "./stage.ts";
import type { WorkerProcess } from "./worker-process.ts";

const TASKS = 40;
/** Let some be done first, so that the kill comes in the midst of it. */
const KILL_AFTER = 12;
/** What it had sent before it was frozen has arrived by then. */
const SETTLE_MS = 150;

export const aWorkerIsKilled: Scene = {
  title: "A worker is killed in the middle of its work",
  async play(stage) {
    const { story } = stage;
    const [victim, other] = stage.workers;
    if (!victim || !other) throw new DemoFailedError("this scene needs two workers.");
    await stage.enqueueSteps(Array.from({ length: TASKS }, (_, index) => 220 + ((index * 67) % 160)));
    story.tell(`${TASKS} tasks of about 300 ms go in. The two workers run four each at a time.`);

    await untilCompleted(stage, KILL_AFTER);
    const { held, killedAt } = await killWhileItWorks(stage, victim);
    const { diedAt, death } = await untilDead(stage, victim);
    const knownMs = diedAt.getTime() - killedAt.getTime();
    stage.tally.crashKnownMs = knownMs;
    story.good(
      `${formatDuration(knownMs)} later it is declared dead: ${shortCauseOf(readDeath(death))}. Nobody had to look.`,
    );

    const recovered = await untilRecovered(stage, held);
    stage.tally.tasksTakenBack += recovered.length;
    story.tell(
      `Its ${recovered.length} tasks are pending again (onCrash: "requeue"), and worker ${other.name} takes them:`,
    );
    story.rows(recovered, recoveredColumns(killedAt));
    await untilCompleted(stage, stage.accepted.length);
    story.good(`Worker ${other.name} has ended them too: ${stage.accepted.length} of ${stage.accepted.length} done.`);
    await story.breathe();
  },
};

async function untilCompleted(stage: Stage, wanted: number): Promise<void> {
  await stage.until(`${wanted} tasks to complete`, async () => {
    const { completed } = await stage.everbeat.tasks.counts();
    const holdings = await Promise.all(
      stage.workers.map(async (worker) => `${worker.name} runs ${(await stage.runningOn(worker)).length}`),
    );
    stage.story.bar(completed, stage.accepted.length, holdings.join(", "));
    return completed >= wanted;
  });
}

/** Frozen for a moment first: only so is it certain that the kill meets it with tasks in its hands. */
async function killWhileItWorks(
  stage: Stage,
  victim: WorkerProcess,
): Promise<{ held: readonly TaskSummary[]; killedAt: Date }> {
  const held = await stage.until("the worker to be busy", async () => {
    victim.freeze();
    await stage.pause(SETTLE_MS);
    const running = await stage.runningOn(victim);
    if (running.length > 0) return running;
    victim.thaw();
    return false;
  });
  // The database's clock stamps its death, so it times the kill as well.
  const killedAt = await stage.everbeat.now();
  await victim.kill();
  stage.dismiss(victim);
  stage.tally.workersKilled++;
  stage.story.bad(`kill -9: worker ${victim.name} dies while it runs ${held.length} tasks. It could tell nobody.`);
  return { held, killedAt };
}

async function untilDead(stage: Stage, victim: WorkerProcess): Promise<ReplicaRow & { diedAt: Date }> {
  stage.story.now("nothing is heard of it");
  return stage.until("the worker's death to be known", async () => {
    const row = (await stage.everbeat.replicas()).find(({ id }) => id === victim.replicaId);
    return row?.status === "dead" && row.diedAt !== null && { ...row, diedAt: row.diedAt };
  });
}

/** Running, or done already, under another claim. */
async function untilRecovered(stage: Stage, held: readonly TaskSummary[]): Promise<readonly TaskDetails[]> {
  return stage.until("its tasks to run again", async () => {
    const tasks = await Promise.all(held.map(({ id }) => stage.everbeat.tasks.show(id)));
    const isAgain = (task: TaskDetails) =>
      task.startedAt !== null && !held.some(({ claimId }) => claimId === task.claimId);
    return tasks.every(isAgain) && tasks;
  });
}

function recoveredColumns(killedAt: Date): Column<TaskDetails>[] {
  const after = ({ startedAt }: TaskDetails) => (startedAt ? startedAt.getTime() - killedAt.getTime() : 0);
  return [
    { title: "TASK", value: (task) => task.id },
    { title: "FIRST ATTEMPT", value: (task) => task.attempts[0]?.outcome ?? "" },
    { title: "CLAIM", value: (task) => task.attempts[0]?.claimId ?? "", align: "right" },
    { title: "NEW CLAIM", value: (task) => task.claimId ?? "", align: "right" },
    { title: "RUNS AGAIN AFTER", value: (task) => formatDuration(after(task)), align: "right" },
  ];
}

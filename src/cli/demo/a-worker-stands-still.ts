/** Scene: SIGSTOP past the threshold. It is declared dead and its task ends elsewhere; awake, it is refused and rejoins. */
import { formatDuration } from "../../config/duration.ts";
import type { ReplicaId, ReplicaRow, TaskDetails, TaskId } from "../../index.ts";
import { DemoFailedError } from "../errors.ts";
import type { Scene, Stage } from "./stage.ts";
import { DEAD_AFTER_MS, type WorkerProcess } from "./worker-process.ts";

const WORK_MS = 1_000;
/** What it had sent before it was frozen has arrived by then. */
const SETTLE_MS = 300;

export const aWorkerStandsStill: Scene = {
  title: "A worker stands still, and wakes up too late",
  async play(stage) {
    const { story, everbeat } = stage;
    await stage.addWorker();
    const { id, sleeper } = await freezeWhileItRuns(stage);
    const frozenId = sleeper.replicaId;
    const before = await everbeat.tasks.show(id);
    const heir = otherThan(stage, sleeper);
    stage.tally.workersFrozen++;
    story.tell(`Worker ${sleeper.name} runs task ${id} under claim ${before.claimId}.`);
    story.bad(`kill -STOP: worker ${sleeper.name} stands still. Its session is there, but its heart does not beat.`);

    const silentForMs = await untilDeclaredDead(stage, frozenId);
    story.good(
      `Declared dead after a silence of ${formatDuration(silentForMs)} (these workers wait for ${formatDuration(DEAD_AFTER_MS)}; by default 15s).`,
    );
    stage.tally.tasksTakenBack++;
    const ended = await untilEndedBy(stage, id, heir);
    story.good(`Worker ${heir.name} runs its task under claim ${ended.claimId} and ends it.`);
    await story.breathe();

    sleeper.thaw();
    story.tell(
      `kill -CONT: worker ${sleeper.name} wakes up, ends its work as if nothing had happened, and wants to write that down.`,
    );
    const late = await untilRefused(stage, id, sleeper);
    if (late) {
      story.good(
        `Refused: "${late.outcome}" under claim ${late.claimId} came late. It is kept, and it changes nothing:`,
      );
      const after = await everbeat.tasks.show(id);
      story.rows(after.attempts, [
        { title: "ATTEMPT", value: (row) => String(row.attempt), align: "right" },
        { title: "OUTCOME", value: (row) => row.outcome },
        { title: "CLAIM", value: (row) => row.claimId, align: "right" },
        { title: "WORKER", value: (row) => nameOf(stage, row.replicaId, { sleeper, frozenId }) },
      ]);
    }
    await stage.until("the sleeper to rejoin", async () => sleeper.isGone || sleeper.replicaId !== frozenId);
    if (sleeper.isGone) await replace(stage, sleeper);
    else story.good(`It has heard that it was taken for dead, and is back under a new id: ${sleeper.replicaId}.`);
    await story.breathe();
  },
};

/** Whichever worker takes it is the one that is frozen. Should it have been quicker than us, once more. */
async function freezeWhileItRuns(stage: Stage): Promise<{ id: TaskId; sleeper: WorkerProcess }> {
  return stage.until("a worker to be frozen while it runs a task", async () => {
    const [id] = await stage.enqueueSteps([WORK_MS]);
    if (id === undefined) return undefined;
    const replicaId = await stage.until("a worker to begin the task", async () => {
      const { state, replicaId: owner, attempts } = await stage.everbeat.tasks.show(id);
      // On record as running it is before its worker has heard of it.
      const isWaiting =
        state === "pending" || state === "claimed" || (state === "running" && !attempts.at(-1)?.progress);
      return !isWaiting && (owner ?? undefined);
    });
    const sleeper = stage.workers.find((worker) => worker.replicaId === replicaId);
    if (!sleeper) throw new DemoFailedError(`task ${id} runs on ${replicaId}, which is no worker of this demo.`);
    sleeper.freeze();
    await stage.pause(SETTLE_MS);
    if ((await stage.everbeat.tasks.show(id)).state === "running") return { id, sleeper };
    sleeper.thaw();
    return undefined;
  });
}

function otherThan(stage: Stage, sleeper: WorkerProcess): WorkerProcess {
  const other = stage.workers.find((worker) => worker !== sleeper);
  if (!other) throw new DemoFailedError("this scene needs two workers.");
  return other;
}

async function untilDeclaredDead(stage: Stage, id: ReplicaId): Promise<number> {
  return stage.until("the frozen worker to be declared dead", async () => {
    const row = (await stage.everbeat.replicas()).find((replica) => replica.id === id);
    if (row) stage.story.now(silenceWords(row));
    return row?.status === "dead" && Number(row.death?.["silentForMs"]);
  });
}

function silenceWords({ silentForMs }: ReplicaRow): string {
  return `not heard for ${formatDuration(Math.max(0, silentForMs ?? 0))}`;
}

async function untilEndedBy(stage: Stage, id: TaskId, heir: WorkerProcess): Promise<TaskDetails> {
  stage.story.now(`worker ${heir.name} runs it`);
  return stage.until(`worker ${heir.name} to end the task`, async () => {
    const task = await stage.everbeat.tasks.show(id);
    return task.state === "completed" && task.replicaId === heir.replicaId && task;
  });
}

/** Nothing, where its heart had no patience with it. */
async function untilRefused(
  stage: Stage,
  id: TaskId,
  sleeper: WorkerProcess,
): Promise<TaskDetails["late"][number] | undefined> {
  const seen = await stage.until("the late outcome to be refused", async () => {
    const [late] = (await stage.everbeat.tasks.show(id)).late;
    return late ?? (sleeper.isGone && "gone");
  });
  return seen === "gone" ? undefined : seen;
}

/** On a machine that is too busy to stop in time what others may repeat by now. */
async function replace(stage: Stage, sleeper: WorkerProcess): Promise<void> {
  if (sleeper.endedBy !== "SIGKILL")
    throw new DemoFailedError(`worker ${sleeper.name} has ended, and not by its heart.`);
  stage.story.good(
    "Its heart found that the work should have stopped long ago, and ended the process before it could do harm.",
  );
  stage.dismiss(sleeper);
  await stage.addWorker();
}

function nameOf(stage: Stage, replicaId: string, was: { sleeper: WorkerProcess; frozenId: ReplicaId }): string {
  if (replicaId === was.frozenId) return was.sleeper.name;
  return stage.everyWorker.find((worker) => worker.replicaId === replicaId)?.name ?? replicaId;
}

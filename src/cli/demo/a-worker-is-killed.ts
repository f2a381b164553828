/** Scene: SIGKILL in the middle of its tasks. They stay, owned and visible, and are taken back by hand. */
import { readClock } from "../../sql/clock.ts";
import type { TaskSummary } from "../../sql/tasks.ts";
import { DemoFailedError } from "../errors.ts";
import type { Column } from "../table.ts";
import { lasting } from "../times.ts";
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
    const { story, everbeat } = stage;
    const [victim, other] = stage.workers;
    if (!victim || !other) throw new DemoFailedError("this scene needs two workers.");
    await stage.enqueueSteps(Array.from({ length: TASKS }, (_, index) => 220 + ((index * 67) % 160)));
    story.tell(`${TASKS} tasks of about 300 ms go in. The two workers run four each at a time.`);

    await untilCompleted(stage, KILL_AFTER);
    await killWhileItWorks(stage, victim);
    story.tell(`Worker ${other.name} goes on alone and ends everything else.`);
    const left = await untilOnlyHeldAreLeft(stage, victim);
    await story.breathe();

    story.tell(
      `The ${left.length} that worker ${victim.name} was running are not lost. They are there, owned and visible:`,
    );
    story.rows(left, heldColumns(await readClock(everbeat.database)));
    await story.breathe();
    await takeBack(stage, victim, left);
    await untilCompleted(stage, stage.accepted.length);
    story.good(`Worker ${other.name} has ended them too: ${stage.accepted.length} of ${stage.accepted.length} done.`);
    await story.breathe();
  },
};

async function untilCompleted(stage: Stage, wanted: number): Promise<void> {
  await stage.until(`${wanted} tasks to complete`, async () => {
    const { completed } = await showProgress(stage);
    return completed >= wanted;
  });
}

async function showProgress(stage: Stage): Promise<{ completed: number; pending: number }> {
  const { completed, pending } = await stage.everbeat.tasks.counts();
  const holdings = await Promise.all(
    stage.workers.map(async (worker) => `${worker.name} runs ${(await stage.runningOn(worker)).length}`),
  );
  stage.story.bar(completed, stage.accepted.length, holdings.join(", "));
  return { completed, pending };
}

/** Frozen for a moment first: only so is it certain that the kill meets it with tasks in its hands. */
async function killWhileItWorks(stage: Stage, victim: WorkerProcess): Promise<void> {
  const held = await stage.until("the worker to be busy", async () => {
    victim.freeze();
    await stage.pause(SETTLE_MS);
    const running = await stage.runningOn(victim);
    if (running.length > 0) return running.length;
    victim.thaw();
    return false;
  });
  await victim.kill();
  stage.dismiss(victim);
  stage.tally.workersKilled++;
  stage.story.bad(`kill -9: worker ${victim.name} dies while it runs ${held} tasks. It could tell nobody.`);
}

async function untilOnlyHeldAreLeft(stage: Stage, victim: WorkerProcess): Promise<readonly TaskSummary[]> {
  return stage.until("the other worker to end the rest", async () => {
    const { completed, pending } = await showProgress(stage);
    const held = await stage.runningOn(victim);
    return pending === 0 && completed + held.length === stage.accepted.length && held;
  });
}

function heldColumns(now: Date): Column<TaskSummary>[] {
  return [
    { title: "TASK", value: (task) => task.id },
    { title: "STATE", value: (task) => task.state },
    { title: "REPLICA", value: (task) => task.replicaId ?? "" },
    { title: "CLAIM", value: (task) => task.claimId ?? "", align: "right" },
    { title: "FOR", value: (task) => lasting(task.startedAt, now), align: "right" },
  ];
}

async function takeBack(stage: Stage, victim: WorkerProcess, held: readonly TaskSummary[]): Promise<void> {
  const { story, everbeat } = stage;
  story.tell("In this version an operator takes them back by hand:");
  story.command(`everbeat tasks retry --state running --replica ${victim.replicaId} --force`);
  const taken = await everbeat.tasks.retry(
    held.map((task) => task.id),
    { force: true },
  );
  const refused = taken.filter((each) => each.outcome !== "taken");
  if (refused.length > 0) throw new DemoFailedError(`${refused.length} tasks could not be taken back.`);
  stage.tally.tasksTakenBack += taken.length;
}

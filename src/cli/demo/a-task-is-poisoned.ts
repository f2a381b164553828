/** Scene: a task kills every worker that takes it. It is found out among the others, and nobody else pays for it. */
import type { TaskDetails } from "../../index.ts";
import type { TaskId } from "../../task/ids.ts";
import type { Scene, Stage } from "./stage.ts";
import type { WorkerProcess } from "./worker-process.ts";

const OTHERS = 5;
/** Longer than the poison takes, so that they are there when it kills. */
const WORK_MS = 600;

export const aTaskIsPoisoned: Scene = {
  title: "A task kills every worker that takes it",
  async play(stage) {
    const { story, everbeat } = stage;
    const others = await stage.enqueueSteps(Array.from({ length: OTHERS }, () => WORK_MS));
    const poison = await stage.enqueuePoison();
    story.tell(`${OTHERS} tasks go in, and one that ends its own process: ${poison}.`);
    for (;;) {
      const victim = await nextVictim(stage, poison);
      if (!victim) break;
      stage.dismiss(victim);
      stage.tally.workersKilled++;
      story.bad(`Worker ${victim.name} dies in the middle of its tasks. Which of them was it?`);
      await stage.addWorker();
    }
    const { summary } = await everbeat.recovery.explain(poison);
    story.good("Found out. It is in quarantine, and no worker takes it again:");
    story.command(`everbeat explain ${poison}`);
    story.tell(`    ${summary}`);
    const ended = await untilCompleted(stage, others);
    stage.tally.tasksTakenBack += ended.filter((task) => task.attempt > 1).length;
    story.good("The tasks that were beside it have completed, and were charged with nothing:");
    story.rows(ended, [
      { title: "TASK", value: (task) => task.id },
      { title: "STATE", value: (task) => task.state },
      { title: "ATTEMPTS", value: (task) => String(task.attempt), align: "right" },
      { title: "CRASHES CHARGED", value: (task) => String(task.crashes), align: "right" },
    ]);
    await story.breathe();
  },
};

/** Undefined: there is none any more, since the poison is in quarantine. */
async function nextVictim(stage: Stage, poison: TaskId): Promise<WorkerProcess | undefined> {
  stage.story.now("the workers are at it");
  const { victim } = await stage.until("the next death, or the quarantine", async () => {
    const dead = stage.workers.find(({ isGone }) => isGone);
    if (dead) return { victim: dead };
    return (await stage.everbeat.tasks.show(poison)).state === "failed" && { victim: undefined };
  });
  return victim;
}

async function untilCompleted(stage: Stage, ids: readonly TaskId[]): Promise<readonly TaskDetails[]> {
  return stage.until("the other tasks to complete", async () => {
    const tasks = await Promise.all(ids.map((id) => stage.everbeat.tasks.show(id)));
    return tasks.every(({ state }) => state === "completed") && tasks;
  });
}

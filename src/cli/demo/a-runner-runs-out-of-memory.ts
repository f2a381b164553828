/** Scene: a task eats all the memory of the process that runs it. That one dies, and what it died of is on record. */
import type { PostMortemRow, TaskDetails } from "../../index.ts";
import type { TaskId } from "../../task/ids.ts";
import type { Scene, Stage } from "./stage.ts";
import { HEAP_LIMIT } from "./worker-process.ts";

export const aRunnerRunsOutOfMemory: Scene = {
  title: "A task runs out of memory, in a process of its own",
  async play(stage) {
    const { story } = stage;
    const id = await stage.enqueueHungry();
    story.tell(`Task ${id} (runIn: "process") wants more than the heap of ${HEAP_LIMIT} that its runner has.`);
    const postMortem = await untilExamined(stage, id);
    stage.tally.runnersLost++;
    story.bad("Its runner is dead. Its worker is not: it has seen the end, and says what it was.");
    story.command(`everbeat post-mortem ${id}`);
    story.tell(`    ${postMortem.sentence}`);
    for (const line of tellingLines(postMortem)) story.tell(line.startsWith(" ") ? `  ${line}` : `    · ${line}`);
    const task = await untilCompleted(stage, id);
    const worker = stage.workerOf(task);
    stage.tally.tasksTakenBack++;
    story.good(`Worker ${worker.name} has run it in another process, where it was content with less:`);
    story.rows(task.attempts, [
      { title: "ATTEMPT", value: (row) => String(row.attempt), align: "right" },
      { title: "OUTCOME", value: (row) => row.outcome },
      { title: "CLAIM", value: (row) => row.claimId, align: "right" },
    ]);
    await story.breathe();
  },
};

async function untilExamined(stage: Stage, id: TaskId): Promise<PostMortemRow> {
  stage.story.now("it eats");
  return stage.until(
    "its runner's post-mortem",
    async () => (await stage.everbeat.recovery.postMortems({ of: id }))[0],
  );
}

/** Of what it wrote last, only what says it all. */
function tellingLines({ evidence }: PostMortemRow): readonly string[] {
  return evidence.filter((line) => !line.startsWith(" ") || line.includes("FATAL ERROR"));
}

async function untilCompleted(stage: Stage, id: TaskId): Promise<TaskDetails> {
  stage.story.now("another runner is at it");
  return stage.until("the task to complete in another runner", async () => {
    const task = await stage.everbeat.tasks.show(id);
    return task.state === "completed" && task;
  });
}

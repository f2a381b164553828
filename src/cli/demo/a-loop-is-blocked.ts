/** Scene: a task does not let its worker's event loop turn. The worker is alive all the same, and its heart says where it is stuck. */
import type { Explanation } from "../../recovery/explain.ts";
import type { TaskId } from "../../task/ids.ts";
import type { Scene, Stage } from "./stage.ts";

const WORK_MS = 3_000;
const FRAMES = 3;

export const aLoopIsBlocked: Scene = {
  title: "A task blocks its worker's event loop",
  async play(stage) {
    const { story, everbeat } = stage;
    const { id, told } = await lookWhileItIsBlocked(stage);
    const { name } = stage.workerOf(await everbeat.tasks.show(id));
    stage.tally.loopsBlocked++;
    story.bad(`Task ${id} keeps the main thread of worker ${name} busy: nothing else gets on there.`);
    story.good("Its heart has a thread of its own. It still beats, so nobody takes it for dead, and it has looked:");
    story.command(`everbeat explain ${id}`);
    story.tell(`    ${told.summary}`);
    for (const line of stackOf(told)) story.tell(`    · ${line}`);
    story.now("it is still at it");
    await stage.until("the loop to turn again", async () => (await everbeat.tasks.show(id)).state === "completed");
    const { attempt } = await everbeat.tasks.show(id);
    story.good(`The loop turns again, and the task has completed, at attempt ${attempt}.`);
    await story.breathe();
  },
};

/** Should it have been over before we looked, once more. */
async function lookWhileItIsBlocked(stage: Stage): Promise<{ id: TaskId; told: Explanation }> {
  return stage.until("a blocked event loop to be seen", async () => {
    const id = await stage.enqueueBlock(WORK_MS);
    stage.story.now("its loop does not turn");
    const told = await stage.until("the stack that it is stuck in", async () => {
      const explanation = await stage.everbeat.recovery.explain(id);
      return (stackOf(explanation).length > 0 || explanation.state === "completed") && explanation;
    });
    return told.state === "completed" ? undefined : { id, told };
  });
}

/** The innermost frames that it is stuck in; none where they are not known. */
function stackOf({ evidence }: Explanation): readonly string[] {
  const from = evidence.findIndex((line) => line.startsWith("stuck at "));
  return from < 0 ? [] : [...evidence.slice(from, from + FRAMES), "      …"];
}

/** The tasks of the demo, as its worker processes load them. */
import { setTimeout as pause } from "node:timers/promises";
import { defineTask } from "../../task/define-task.ts";

/** Deaf to its signal on purpose: a handler that never hears of losing its claim, so that only fencing stands in its way. */
export const demoStep = defineTask({
  name: "demo-step",
  // It can be repeated, so nobody has to look first.
  onCrash: "requeue",
  async run({ workMs }: { workMs: number }) {
    await pause(workMs);
    return { workedMs: workMs };
  },
});

/** Ends the process that runs it, as a fault in native code or a lack of memory would. */
export const demoPoison = defineTask({
  name: "demo-poison",
  onCrash: "requeue",
  async run(_input: object) {
    await pause(250);
    process.kill(process.pid, "SIGKILL");
  },
});

/** The demo holds the other end of its workers' standard input: when it is killed, they leave too. */
export function leaveWithParent(): void {
  process.stdin.on("end", () => process.kill(process.pid, "SIGTERM"));
  process.stdin.resume();
}

/** The tasks of the demo, as its worker processes load them. */
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { builtFile } from "../../package-files.ts";
import { defineTask } from "../../task/define-task.ts";

/** Deaf to its signal on purpose: a handler that never hears of losing its claim, so that only fencing stands in its way. */
export const demoStep = defineTask({
  name: "demo-step",
  // It can be repeated, so nobody has to look first.
  onCrash: "requeue",
  async run({ workMs }: { workMs: number }, context) {
    void context.phase("at work");
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

/** Takes more memory than there is on its heap, the first time; runs in a process of its own, so that only that one dies of it. */
export const demoHungry = defineTask({
  name: "demo-hungry",
  runIn: "process",
  // Not the file that a worker loads: a runner has no parent to leave with.
  module: pathToFileURL(builtFile("cli/demo/demo-tasks.js")),
  onCrash: "requeue",
  run(_input: object, { task }): { isFull: boolean } {
    const eaten: number[][] = [];
    while (task.attempt === 1) eaten.push(new Array<number>(10_000).fill(Math.random()));
    return { isFull: eaten.length > 0 };
  },
});

/** Does not let the event loop turn while it works: what many a parser, cipher or regular expression does. */
export const demoBlock = defineTask({
  name: "demo-block",
  onCrash: "requeue",
  run({ workMs }: { workMs: number }): { prime: number } {
    return { prime: largestPrimeWithin(workMs) };
  },
});

function largestPrimeWithin(workMs: number): number {
  const until = performance.now() + workMs;
  let largest = 2;
  for (let n = 3; performance.now() < until; n += 2) if (isPrime(n)) largest = n;
  return largest;
}

function isPrime(n: number): boolean {
  for (let divisor = 3; divisor * divisor <= n; divisor += 2) if (n % divisor === 0) return false;
  return true;
}

/** The demo holds the other end of its workers' standard input: when it is killed, they leave too. */
export function leaveWithParent(): void {
  process.stdin.on("end", () => process.kill(process.pid, "SIGTERM"));
  process.stdin.resume();
}

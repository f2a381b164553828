/** The tasks of `everbeat dev`: one that is quick, one that takes its time, and one that fails now and then. */
import { setTimeout as pause } from "node:timers/promises";
import { delay } from "../database/backoff.ts";
import type { Everbeat } from "../everbeat.ts";
import { type AnyTask, defineTask } from "../task/define-task.ts";

const hello = defineTask({
  name: "hello",
  run: async (input: { name: string } | null) => ({ greeting: `Hello, ${input?.name ?? "world"}!` }),
});

const resize = defineTask({
  name: "resize",
  queue: "images",
  async run(input: { width: number } | null, { signal }) {
    await pause(500 + Math.random() * 1_500, undefined, { signal });
    return { width: input?.width ?? 640 };
  },
});

const charge = defineTask({
  name: "charge",
  queue: "payments",
  retry: { attempts: 5, delay: "1s" },
  async run(input: { cents: number } | null) {
    await pause(200);
    if (Math.random() < 0.4) throw new Error("the payment provider did not answer");
    return { cents: input?.cents ?? 0 };
  },
});

export const EXAMPLE_TASKS: readonly AnyTask[] = [hello, resize, charge];

const EVERY_MS = 2_000;

export async function enqueueNowAndThen(everbeat: Everbeat, signal: AbortSignal): Promise<void> {
  for (let round = 0; !signal.aborted; round++) {
    // A round that fails because the database is away is left out; the worker beside us reports the outage.
    await enqueueRound(everbeat, round).catch(() => {});
    await delay(EVERY_MS, signal);
  }
}

async function enqueueRound(everbeat: Everbeat, round: number): Promise<void> {
  await everbeat.enqueue(hello, { name: "world" });
  if (round % 2 === 0) await everbeat.enqueue(resize, { width: 100 * (1 + (round % 10)) });
  if (round % 3 === 0) await everbeat.enqueue(charge, { cents: 990 });
}

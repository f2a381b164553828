/** Words that the explanations share. */
import { type Advice, START_COMMAND } from "../advice.ts";

/** "1 attempt", "2 crashes". */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

export function triesWords(tries: { attempt: number; failures: number; crashes: number }): string {
  const { attempt, failures, crashes } = tries;
  return `${counted(attempt, "attempt")}, ${counted(failures, "failure")}, ${counted(crashes, "crash", "crashes")}`;
}

/** A task may have been at the deaths of both: of its runners, and of the workers that had them. */
export function deathsWords(crashes: number, lastOf: "worker" | "runner"): string {
  return crashes === 1 ? `a ${lastOf}` : `${crashes} workers or runners`;
}

export const START_A_WORKER: Advice = { sentence: `Start a worker: ${START_COMMAND}` };

export function startAWorker(queue: string): Advice {
  return { sentence: `${START_A_WORKER.sentence} --queues ${queue}` };
}

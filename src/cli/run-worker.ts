/** A worker from its start until somebody asks it to stop. */
import { delay } from "../database/backoff.ts";
import type { Everbeat } from "../everbeat.ts";
import type { SupervisorLink } from "../supervisor/supervised.ts";
import type { AnyTask } from "../task/define-task.ts";
import type { WorkOptions } from "../worker/options.ts";
import { tellOfEarlyExit } from "./early-exit.ts";
import { EXIT, type ExitCode } from "./exit-codes.ts";
import type { Screen } from "./screen.ts";
import { listenForStop, stopWhenTold } from "./stop-signals.ts";

/** What a second signal leaves to the worker: time to abort what runs, and to have it written down that it was given back. */
const HURRY_MS = 3_000;

export interface WorkerRun {
  readonly everbeat: Everbeat;
  readonly tasks: readonly AnyTask[];
  readonly options: WorkOptions;
  readonly screen: Screen;
  /** Goes on beside the worker, until the signal fires. */
  readonly beside?: (signal: AbortSignal) => Promise<void>;
  /** To whoever supervises this process. */
  readonly link?: SupervisorLink | undefined;
}

/** Gracefully at the first signal; at the second, whatever still runs is aborted; at the third, out. */
export async function runWorker({ everbeat, tasks, options, screen, beside, link }: WorkerRun): Promise<ExitCode> {
  const stop = link ? stopWhenTold(link) : listenForStop();
  link?.tellOf(everbeat);
  const stopping = new AbortController();
  let unwatch: (() => void) | undefined;
  try {
    // Ours, not the worker's own: a command that was asked to stop and did has succeeded, and exits with 0.
    const worker = await everbeat.work(tasks, { ...options, handleSignals: false });
    // A supervisor tells of the exits of its children.
    unwatch = link ? undefined : tellOfEarlyExit(worker, stop, screen);
    const company = beside?.(stopping.signal);
    await stop.first;
    stopping.abort();
    if (screen.isTerminal && !link && worker.running > 0)
      screen.remark("Stopping when they have ended. Ctrl-C again: at once.");
    await company;
    const left = everbeat.close().then(() => EXIT.ok);
    const hurried = stop.second.then(async () => {
      void everbeat.close({ now: true });
      await Promise.race([delay(HURRY_MS), stop.third]);
      return EXIT.failed;
    });
    return await Promise.race([left, hurried]);
  } finally {
    unwatch?.();
    stop.close();
  }
}

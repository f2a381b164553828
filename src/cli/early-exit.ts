/**
 * A handler can end its worker's process, by `process.exit()` for one, and nobody would be told: the last line says so. Unless the worker was asked
 * to stop, the exit code is not that of a success then, so that a service manager starts the worker again.
 */
import { listenToProcess } from "../process-listeners.ts";
import { EXIT } from "./exit-codes.ts";
import type { Screen } from "./screen.ts";
import type { StopSignals } from "./stop-signals.ts";

/** Returns the function that ends it. */
export function tellOfEarlyExit(
  worker: { readonly running: number },
  stop: Pick<StopSignals, "isAsked">,
  screen: Screen,
): () => void {
  return listenToProcess("exit", (code: number) => {
    const { running } = worker;
    if (running === 0) return;
    const tasks = running === 1 ? "1 task was" : `${running} tasks were`;
    const why = stop.isAsked
      ? "It had been asked to stop, and did not wait until it had left. Does a listener to that signal call process.exit()?"
      : "Nobody had asked it to. Has a handler called process.exit()?";
    screen.remark(`${screen.errorColours.red("✗")} The process exits with code ${code} while ${tasks} running. ${why}`);
    if (code === EXIT.ok && !stop.isAsked) process.exitCode = EXIT.failed;
  });
}

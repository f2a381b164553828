/**
 * A handler can end its worker's process, by `process.exit()` for one, and nobody would be told: the last line says so. The exit code is
 * not that of a success then, so that a service manager starts the worker again.
 */
import { listenToProcess } from "../process-listeners.ts";
import { EXIT } from "./exit-codes.ts";
import type { Screen } from "./screen.ts";

/** Returns the function that ends it. */
export function tellOfUnaskedExit(worker: { readonly running: number }, screen: Screen): () => void {
  return listenToProcess("exit", (code: number) => {
    const { running } = worker;
    if (running === 0) return;
    const tasks = running === 1 ? "1 task was" : `${running} tasks were`;
    const words = `The process exits with code ${code} while ${tasks} running, and nobody has asked it to. Has a handler called process.exit()?`;
    screen.remark(`${screen.errorColours.red("✗")} ${words}`);
    if (code === EXIT.ok) process.exitCode = EXIT.failed;
  });
}

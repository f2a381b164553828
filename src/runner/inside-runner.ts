/** Whether this code runs in a runner: then it must not start workers, whose runners would load it again, and so on. */
import { EverbeatError } from "../errors.ts";

export class WorkInsideRunnerError extends EverbeatError {
  readonly code = "WORK_INSIDE_RUNNER";
  readonly kind = "bad-request";
  constructor() {
    super(
      "A module that starts a worker was loaded by a runner, to find a task in it. Put tasks with runIn into a module of their own, that only defines them.",
    );
  }
}

const MARK = Symbol.for("everbeat.runner");

export function markAsRunner(): void {
  (globalThis as Record<symbol, unknown>)[MARK] = true;
}

export function isInsideRunner(): boolean {
  return (globalThis as Record<symbol, unknown>)[MARK] === true;
}

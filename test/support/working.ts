/** Workers in the test's own process, on tasks with names of the test's own, stopped when its block ends. */
import type { EventName } from "../../src/events.ts";
import type { Everbeat } from "../../src/everbeat.ts";
import type { AnyTask } from "../../src/task/define-task.ts";
import type { WorkOptions } from "../../src/worker/options.ts";

let serial = 0;
export const unique = (name: string) => `${name}-${++serial}`;

export function workingOn(everbeat: Everbeat) {
  const working = <T extends AnyTask>(tasks: readonly T[], options: WorkOptions = {}) =>
    everbeat.work(tasks, { handleSignals: false, pollInterval: 200, ...options });
  return {
    working,
    /** For `await using`. */
    async disposable(starting: ReturnType<typeof working>) {
      const worker = await starting;
      return { worker, [Symbol.asyncDispose]: () => worker.stop({ now: true }) };
    },
    /** Every such event from now on. */
    record<N extends EventName>(name: N): unknown[] {
      const seen: unknown[] = [];
      everbeat.on(name, (event) => seen.push(event));
      return seen;
    },
  };
}

/** A promise and the function that settles it. */
export function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

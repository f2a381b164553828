/** The calls of a handler's context that a runner passes on to the context that its replica has. */
import type { LogFields } from "../log.ts";
import type { TaskContext } from "../task/context.ts";
import type { ProgressValue } from "../task/progress.ts";

const CALLS: Readonly<Record<string, (context: TaskContext, ...args: never[]) => void>> = {
  log: ({ log }, level: "debug" | "info" | "warn" | "error", fields: LogFields, message: string) =>
    log[level](fields, message),
  // Checked where they were made; and nobody waits for them here.
  phase: ({ phase }, name: string, details: unknown) => void phase(name, details).catch(() => {}),
  progress: ({ progress }, value: ProgressValue, note: string | undefined) => progress(value, note),
};

/** Nothing for a call that this replica does not know, or that comes after its attempt has ended. */
export function callOnContext(context: TaskContext | undefined, name: string, args: readonly unknown[]): void {
  if (context && Object.hasOwn(CALLS, name)) CALLS[name]?.(context, ...(args as never[]));
}

/** Where changes of alerts are delivered to: an interface for a webhook, mail, a pager. */
import type { AlertChange, AlertRow } from "../alert-kinds.ts";
import { type Check, checkOptions, isFunction, isText } from "./checks.ts";

export interface ChangedAlert {
  /** The same at every try, so that a receiver can tell a repetition. */
  readonly id: string;
  readonly change: AlertChange;
  /** As it is now: one that was raised may be over by then. */
  readonly alert: AlertRow;
  /** With this one. */
  readonly tries: number;
}

export interface AlertChannel {
  /** Processes whose channels have the same name share the work: each change goes out from one of them. */
  readonly name: string;
  /**
   * Called at least once for each change. Throws, or rejects, where it was not taken: it is tried again, with growing pauses, for a week.
   * `signal` fires when it has taken too long, or the process leaves.
   */
  deliver(changed: ChangedAlert, context: { readonly signal: AbortSignal }): Promise<unknown> | unknown;
}

const SHAPE = { name: isText({ max: 100 }), deliver: isFunction };

export const areChannels: Check<readonly AlertChannel[]> = (value, path, problems) => {
  if (!Array.isArray(value)) {
    problems.add(path, "must be a list of channels, each { name, deliver(changed) }");
    return undefined;
  }
  const names = new Set<unknown>();
  for (const [place, channel] of (value as unknown[]).entries()) {
    const at = `${path}[${place}]`;
    const { name, deliver } = (channel ?? {}) as Partial<AlertChannel>;
    checkOptions({ name, deliver: deliver ?? null }, SHAPE, { path: at, problems });
    if (name === undefined) problems.add(`${at}.name`, "is missing");
    if (names.has(name)) problems.add(`${at}.name`, `is that of another channel: ${JSON.stringify(name)}`);
    names.add(name);
  }
  return value as readonly AlertChannel[];
};

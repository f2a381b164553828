/** Where a running attempt is in its timeout: when its signal fires, and what happens where its handler ignores that. Pure. */
import { formatDuration } from "../config/duration.ts";
import type { OwnerFacts, TaskFacts } from "../sql/explain-task.ts";
import { DEFAULT_RETRY } from "../task/retry.ts";

type Running = Pick<TaskFacts, "state" | "definition" | "heldForMs" | "failures">;
type RunningThere = Pick<OwnerFacts, "runner" | "abortGraceMs">;

/** Since when its signal has fired, as far as one can see. Undefined: it has not, or there is no timeout. */
export function pastTimeout(task: Running): { readonly timeoutMs: number; readonly forMs: number } | undefined {
  const timeoutMs = timeoutOf(task);
  if (timeoutMs === undefined) return undefined;
  const forMs = (task.heldForMs ?? 0) - timeoutMs;
  return forMs >= 0 ? { timeoutMs, forMs } : undefined;
}

/** "Its timeout of 2s was over 2s ago: its signal has fired". */
export function firedWords({ timeoutMs, forMs }: { timeoutMs: number; forMs: number }): string {
  return `Its timeout of ${formatDuration(timeoutMs)} was over ${formatDuration(forMs)} ago: its signal has fired`;
}

/** What ends it before its handler does: one sentence for each thing that will happen. Empty: it has no timeout. */
export function timeoutNext(task: Running, owner: RunningThere): string[] {
  const timeoutMs = timeoutOf(task);
  if (timeoutMs === undefined) return [];
  const past = pastTimeout(task);
  if (past) return [deafNext(task, owner, past.forMs)];
  const leftMs = timeoutMs - (task.heldForMs ?? 0);
  const { abortGraceMs } = owner;
  const later = abortGraceMs === null ? "after abortGrace" : `${formatDuration(abortGraceMs)} later`;
  return [
    `Its timeout is over in ${formatDuration(leftMs)}: then its signal fires.`,
    `If its handler ignores that, ${isEnded(owner)} ${later} and ${failureWords(task, owner)}.`,
  ];
}

export function timeoutEvidence(task: Running, { abortGraceMs }: RunningThere): string[] {
  const timeoutMs = timeoutOf(task);
  if (timeoutMs === undefined) return [];
  const grace = abortGraceMs === null ? "" : `; abortGrace of its worker ${formatDuration(abortGraceMs)}`;
  return [`timeout ${formatDuration(timeoutMs)}, ${formatDuration(task.heldForMs ?? 0)} so far${grace}`];
}

function deafNext(task: Running, owner: RunningThere, firedForMs: number): string {
  const { abortGraceMs } = owner;
  const fails = failureWords(task, owner);
  if (abortGraceMs === null)
    return `If its handler does not end within abortGrace of that, ${isEnded(owner)} and ${fails}.`;
  const leftMs = abortGraceMs - firedForMs;
  if (leftMs > 0)
    return `If its handler still has not ended in ${formatDuration(leftMs)}, ${isEnded(owner)} (abortGrace) and ${fails}.`;
  const it = isEnded(owner);
  return `${it.charAt(0).toUpperCase()}${it.slice(1)} (abortGrace) at any moment and ${fails}.`;
}

/** What goes on in this very process can only be left to itself. */
function isEnded({ runner }: RunningThere): string {
  return runner ? "its runner is ended" : "it is abandoned";
}

function failureWords({ failures, definition }: Running, { runner }: RunningThere): string {
  const { attempts } = definition?.retry ?? DEFAULT_RETRY;
  if (failures + 1 < attempts)
    return "its attempt fails with TASK_TIMED_OUT and is tried again as its retry policy says";
  return `${runner ? "it " : ""}fails with TASK_TIMED_OUT`;
}

function timeoutOf({ state, definition }: Running): number | undefined {
  return state === "running" ? (definition?.timeoutMs ?? undefined) : undefined;
}

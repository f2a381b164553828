/** The words for work that is alive and does not get on: a blocked event loop, a stall, and what a task last said of itself. */
import { type Advice, advise } from "../advice.ts";
import { formatDuration } from "../config/duration.ts";
import type { RecoverySettings } from "../config/recovery-options.ts";
import { nextRunWithinMs } from "../services/line.ts";
import type { OwnerFacts, TaskFacts } from "../sql/explain-task.ts";
import { innermostFrames, shortFrame } from "../task/stack-frames.ts";
import type { Reason } from "./explain.ts";
import { firedWords, pastTimeout, timeoutNext } from "./explain-timeout.ts";
import { BLOCKED_FROM_MS, stallLimits } from "./limits.ts";
import { type OnStall, saidWords } from "./stall.ts";
import { verdictOn } from "./verdict.ts";

type Finding = Omit<Reason, "evidence">;

const FRAMES_SHOWN = 8;

export const ENDS_WITH_HANDLER = "It ends when its handler does.";

/** Undefined: it gets on, as far as one can see. */
export function hungFinding(facts: TaskFacts, owner: OwnerFacts, settings: RecoverySettings): Finding | undefined {
  return blockedFinding(facts, owner, settings) ?? stalledFinding(facts, owner, settings);
}

function blockedFinding(facts: TaskFacts, owner: OwnerFacts, settings: RecoverySettings): Finding | undefined {
  const loop = blockedLoop(owner);
  if (!loop) return undefined;
  const { isRunner, forMs, stack } = loop;
  const who = `Its ${isRunner ? "runner" : "owner"} is alive, but its event loop`;
  const summary = stack
    ? `${who} has been blocked for ${formatDuration(forMs)}, in: ${shortFrame(stack)}.`
    : `${who} has not turned for ${formatDuration(forMs)}: ${isRunner ? "its" : "some"} handler there blocks it.`;
  if (isRunner) {
    const advice = [cancelling(facts)];
    return { because: "runner-blocked", summary, next: nextOfBlockedRunner(facts), isStuck: false, advice };
  }
  return {
    because: "owner-blocked",
    summary,
    next: nextOfBlocked(facts, forMs, settings),
    isStuck: false,
    advice: [advise("See which tasks run there.", "tasks.list", { state: "running", replicaId: owner.replicaId })],
  };
}

/** Of the loop that this task depends on: its runner's, or its owner's own. Undefined: it turns. */
function blockedLoop({ blocked, runner, vitals }: OwnerFacts) {
  const runnerMs = runner?.blockedForMs ?? 0;
  const isRunner = blocked?.isRunner ?? runnerMs >= BLOCKED_FROM_MS;
  const seenMs = isRunner ? runnerMs : (vitals?.["blockedForMs"] ?? 0);
  if (!blocked && seenMs < BLOCKED_FROM_MS) return undefined;
  return { isRunner, forMs: Math.max(blocked?.forMs ?? 0, seenMs), stack: blocked?.stack };
}

/** Its replica, whose own loop turns, sees to its timeout. */
function nextOfBlockedRunner({ definition, heldForMs }: TaskFacts): string {
  const timeoutMs = definition?.timeoutMs ?? null;
  if (timeoutMs === null)
    return "Nothing happens to it on that account; it does not get on until the loop turns again. No other task waits for it.";
  const leftMs = timeoutMs - (heldForMs ?? 0);
  const when = leftMs > 0 ? `when its timeout is over, in ${formatDuration(leftMs)},` : "now that its timeout is over";
  return `Unless the loop turns again, ${when} its runner is ended, and it fails with TASK_TIMED_OUT. No other task waits for it.`;
}

function nextOfBlocked({ definition, heldForMs }: TaskFacts, blockedForMs: number, settings: RecoverySettings): string {
  const { timeoutGraceMs, endAfterMs } = settings.blockedLoop;
  const timeoutMs = definition?.timeoutMs ?? null;
  if (timeoutMs !== null) {
    const leftMs = Math.max(0, timeoutMs + timeoutGraceMs - (heldForMs ?? 0));
    return `Unless the loop turns again, in ${formatDuration(leftMs)} it fails with TASK_TIMED_OUT and its process is ended; the others there are recovered, uncharged.`;
  }
  if (endAfterMs !== undefined) {
    const leftMs = Math.max(0, endAfterMs - blockedForMs);
    return `Unless the loop turns again, its process is ended in ${formatDuration(leftMs)} (blockedLoop.endAfter), and what it had in hand is recovered as after a crash.`;
  }
  return "Nothing happens to its tasks on that account; none of them gets on until the loop turns again.";
}

function stalledFinding(facts: TaskFacts, owner: OwnerFacts, settings: RecoverySettings): Finding | undefined {
  const { definition, quietForMs } = facts;
  const stalledAfterMs = definition?.stalledAfterMs ?? null;
  if (facts.state !== "running" || stalledAfterMs === null || quietForMs === null) return undefined;
  const onStall = definition?.onStall ?? "alert";
  if (verdictOn({ silentForMs: quietForMs }, stallLimits({ stalledAfterMs, onStall })).kind === "fresh")
    return undefined;
  return {
    because: "stalled",
    summary: `Its worker is alive, but it has made no progress for ${formatDuration(quietForMs)} (stalledAfter is ${formatDuration(stalledAfterMs)}): ${saidWords(facts.progress ?? SAID_NOTHING)}.`,
    next: onStall === "alert" ? nextOfAlerted(facts, owner) : nextOfStalled(onStall, settings),
    isStuck: false,
    advice: [cancelling(facts)],
  };
}

function cancelling({ id }: TaskFacts): Advice {
  return advise("Cancel it, if it should not go on.", "tasks.cancel", { ids: [id] });
}

const SAID_NOTHING = { phase: null, details: null, share: null, note: null };

/** An alert ends nothing, but its timeout may. */
function nextOfAlerted(facts: TaskFacts, owner: OwnerFacts): string {
  const after = timeoutNext(facts, owner);
  if (after.length === 0) return 'Nothing but an alert (onStall: "alert"): it ends when its handler does.';
  const past = pastTimeout(facts);
  const first = past ? `${firedWords(past)}.` : ENDS_WITH_HANDLER;
  return ['For the stall nothing but an alert (onStall: "alert").', first, ...after].join(" ");
}

function nextOfStalled(onStall: Exclude<OnStall, "alert">, { checkMs }: RecoverySettings): string {
  const soon = `At the next look, within ${formatDuration(1_000 + nextRunWithinMs(checkMs))},`;
  if (onStall === "fail") return `${soon} it fails with STALLED (onStall: "fail").`;
  return `${soon} its attempt fails with STALLED, and it is tried again as its retry policy says (onStall: "retry").`;
}

export function hungEvidence(facts: TaskFacts, owner: OwnerFacts): string[] {
  const { definition, quietForMs } = facts;
  const lines = progressEvidence(facts);
  const stalledAfterMs = definition?.stalledAfterMs ?? null;
  if (facts.state === "running" && stalledAfterMs !== null && quietForMs !== null) {
    const after = `it counts as stalled after ${formatDuration(stalledAfterMs)} without progress`;
    lines.push(`${after}; ${formatDuration(quietForMs)} so far`);
  }
  if (!owner.blocked) return lines;
  const frames = owner.blocked.stack === null ? [] : innermostFrames(owner.blocked.stack, FRAMES_SHOWN);
  lines.push(...frames.map((frame, index) => (index === 0 ? `stuck ${frame}` : `      ${frame}`)));
  const asked = owner.blocked.isRunner && owner.runner?.kind === "thread" ? "thread" : "main thread";
  if (frames.length === 0) lines.push(`its ${asked} did not answer where it is: it is in native code`);
  const tasks = owner.blocked.tasks.map(({ taskId, name }) => `${name} ${taskId}`);
  lines.push(`in hand there when that was seen: ${tasks.join(", ") || "nothing"}`);
  return lines;
}

/** Of a task in any state: what its last attempt said of itself. */
export function progressEvidence({ progress }: TaskFacts): string[] {
  if (!progress || progress.changedAgoMs === null) return [];
  return [`${saidWords(progress)}, ${formatDuration(progress.changedAgoMs)} ago`];
}

/** How a task that somebody holds is doing: its owner, the owner's heart, the verdict, and what follows. */
import { type Advice, advise } from "../advice.ts";
import { adviceOnHold } from "../alert-advice.ts";
import { HEARTS } from "../alert-kinds.ts";
import { formatDuration } from "../config/duration.ts";
import type { RecoverySettings } from "../config/recovery-options.ts";
import { nextRunWithinMs } from "../services/line.ts";
import type { OwnerFacts, TaskFacts } from "../sql/explain-task.ts";
import { readDeath, type VerdictReason } from "../task/death.ts";
import type { Reason } from "./explain.ts";
import { ENDS_WITH_HANDLER, hungEvidence, hungFinding } from "./explain-hung.ts";
import { actionOn, budgetWords, outcomeWords } from "./explain-outcome.ts";
import { firedWords, pastTimeout, timeoutEvidence, timeoutNext } from "./explain-timeout.ts";
import { START_A_WORKER } from "./explain-words.ts";
import { heartLimits, type Limits, type OwnedState, UNHEARD_BY_HAND_MS } from "./limits.ts";
import { causeOf } from "./recovery-action.ts";
import { isSweeping, unheardForMs } from "./sweeping.ts";
import { type DeadVerdict, type Verdict, verdictOn } from "./verdict.ts";

/** What workers and upkeep are left beyond the grace of a cancellation. */
const CANCEL_MARGIN_MS = 5_000;

const ENDS_WITH_WORKER =
  "If that takes longer than its worker waits (shutdownGrace), its signal fires, and unless its handler ends otherwise it is pending again, uncharged.";

type Finding = Omit<Reason, "evidence">;

export function explainOwned(facts: TaskFacts, settings: RecoverySettings): Reason {
  const { owner } = facts;
  const finding = owner ? findingOn({ facts, owner, settings }) : moved();
  return { ...finding, evidence: owner ? evidenceLines(facts, owner, settings) : [] };
}

interface Case {
  readonly facts: TaskFacts;
  readonly owner: OwnerFacts;
  readonly settings: RecoverySettings;
}

function findingOn(the: Case): Finding {
  const { facts, owner } = the;
  const isHere = owner.status === "online" || owner.status === "draining";
  const verdict = isHere ? verdictOf(the) : undefined;
  if (verdict?.kind === "dead") return lost(the, verdict);
  if (!isHere) return lost(the, undefined);
  if (unheardForMs(facts.listening, the.settings.checkMs) !== undefined) return unwatched(the);
  if (facts.cancelForceInMs !== null) return cancelling(facts.cancelForceInMs);
  if (hasLostSession(the) || verdict?.kind === "stale") {
    if (!isSweeping(facts.listening, the.settings.checkMs)) return unwatched(the);
  }
  if (hasLostSession(the)) return sessionLost(the);
  if (verdict?.kind === "stale") return stale(the);
  return owner.isOfThisEpoch ? alive(the) : unheard(the);
}

function verdictOf(the: Case): Verdict {
  return verdictOn(the.owner, limitsOf(the));
}

function limitsOf({ facts, owner, settings }: Case): Limits {
  return heartLimits(owner, settings, facts.state as OwnedState);
}

/** Known before any reaper has noted it: what it will see is what is so now. */
function hasLostSession({ owner, settings }: Case): boolean {
  if (settings.sessionGraceMs === undefined) return false;
  return owner.sessionFreeForMs !== null || (owner.hasSession && !owner.holdsSession);
}

/** Its owner is dead, has left, or is not on record; or will be declared dead by the next sweep. */
function lost(the: Case, verdict: DeadVerdict | undefined): Finding {
  const { facts, owner, settings } = the;
  const summary = verdict ? dyingWords(the, verdict) : goneWords(owner);
  const byHand = recoveringByHand(facts);
  const action = actionOn(the);
  if (action.kind === "leave") {
    const option = facts.state === "claimed" ? "autoRequeueStaleClaimed" : "autoFailStaleRunning";
    const next = `Nothing: automatic recovery of ${facts.state} tasks is switched off (${option}: false). It stays until recovered by hand.`;
    return { because: "recovery-off", summary, next, isStuck: true, advice: byHand };
  }
  if (!isSweeping(facts.listening, settings.checkMs)) return nobodySweeps(facts, summary);
  if (verdict && facts.listening?.heldForMs != null && !facts.listening.isConfirmed) {
    const leftMs = Math.max(0, settings.massDeath.holdMs - facts.listening.heldForMs);
    const next = `Recovery is held, because too many machines fell silent at once. It goes on when they are heard again, when somebody confirms, or in ${formatDuration(leftMs)}. Then ${outcomeWords(the)}.`;
    return { because: "recovery-held", summary, next, isStuck: false, advice: [CONFIRM] };
  }
  const next = `At the next sweep, within ${formatDuration(nextRunWithinMs(settings.checkMs))}, ${outcomeWords(the)}.`;
  return { because: verdict ? "owner-dying" : "owner-gone", summary, next, isStuck: false, advice: [] };
}

/** It may well be dead, but there is nobody to say so. */
function unwatched(the: Case): Finding {
  return nobodySweeps(the.facts, unheardWords(the));
}

function unheardWords(the: Case): string {
  const { facts, settings, owner } = the;
  const ms = unheardForMs(facts.listening, settings.checkMs);
  const forHowLong = ms === undefined ? "nobody has ever listened" : `nobody has listened for ${formatDuration(ms)}`;
  const session = hasLostSession(the) ? " Its database session has ended, as it does when a process dies." : "";
  return `Whether its owner, replica ${owner.replicaId}, is alive cannot be said for sure: ${forHowLong}.${session}`;
}

function dyingWords(the: Case, verdict: DeadVerdict): string {
  if (!isSweeping(the.facts.listening, the.settings.checkMs)) return unheardWords(the);
  return `Its owner is about to be declared dead: ${DEATH_WORDS[verdict.because](the.owner)}.`;
}

function nobodySweeps(facts: TaskFacts, summary: string): Finding {
  const { listening } = facts;
  const ago = listening ? `the last sweep was ${formatDuration(listening.sweptAgoMs)} ago` : "nobody ever has";
  const next = `Nothing until a worker runs: every worker sweeps, but ${ago}.`;
  const advice = [START_A_WORKER, ...recoveringUnheard(facts)];
  return { because: "nobody-sweeps", summary, next, isStuck: true, advice };
}

function cancelling(forceInMs: number): Finding {
  const leftMs = forceInMs + CANCEL_MARGIN_MS;
  return {
    because: "cancelling",
    summary: "Its cancellation was asked for: its signal has fired, and its handler has not ended yet.",
    next: `It is cancelled when its handler ends, at the latest ${leftMs > 0 ? `in ${formatDuration(leftMs)}` : "at the next upkeep"}.`,
    isStuck: false,
    advice: [],
  };
}

function sessionLost(the: Case): Finding {
  const { owner, facts } = the;
  const leftMs = Math.max(0, (limitsOf(the).sessionGoneAfterMs ?? 0) - (owner.sessionFreeForMs ?? 0));
  return {
    because: "session-lost",
    summary: `Its owner's database session ended ${owner.sessionFreeForMs === null ? "just now" : `${formatDuration(owner.sessionFreeForMs)} ago`}, as it does when a process dies.`,
    next: facts.listening?.isByOwner
      ? `Unless its heart takes it up again, another worker declares it dead in ${formatDuration(leftMs)}. Then ${outcomeWords(the)}. It swept last itself: if no other worker runs, nothing happens until one starts.`
      : `Unless its heart takes it up again, it is declared dead in ${formatDuration(leftMs)}. Then ${outcomeWords(the)}.`,
    isStuck: false,
    advice: [],
  };
}

/** Stamps and sessions of another epoch prove nothing, neither life nor death. */
function unheard(the: Case): Finding {
  return {
    because: "owner-unheard",
    summary: `Whether its owner, replica ${the.owner.replicaId}, is alive is not known yet: it has not been heard since the database was started anew, and an earlier session proves nothing.`,
    next: `Unless it is heard, it is declared dead in ${formatDuration(untilDeadMs(the))}. Then ${outcomeWords(the)}.`,
    isStuck: false,
    advice: [],
  };
}

function untilDeadMs(the: Case): number {
  return Math.max(0, (limitsOf(the).deadAfterMs ?? 0) - (the.owner.silentForMs ?? 0));
}

function stale(the: Case): Finding {
  const { owner } = the;
  return {
    because: "owner-stale",
    summary: `Its owner has been silent for ${formatDuration(owner.silentForMs ?? 0)}: stale, which is a warning and nothing else.`,
    next: `Unless it is heard again, it is declared dead in ${formatDuration(untilDeadMs(the))}. Then ${outcomeWords(the)}.`,
    isStuck: false,
    advice: [advise("See which of its tasks are stale.", "recovery.stale", { replicaId: owner.replicaId })],
  };
}

function alive({ facts, owner, settings }: Case): Finding {
  const hung = hungFinding(facts, owner, settings);
  if (hung) return hung;
  const held = formatDuration(facts.heldForMs ?? 0);
  if (facts.state === "claimed") {
    return {
      because: "owner-alive",
      summary: `A worker that is alive claimed it ${held} ago, ahead of a free slot. None of its code has run.`,
      next: "It starts when a slot is free there, or is given back after about two seconds.",
      isStuck: false,
      advice: [],
    };
  }
  return running(facts, owner, held);
}

function running(facts: TaskFacts, owner: OwnerFacts, held: string): Finding {
  const after = timeoutNext(facts, owner);
  const quiet = { isStuck: false, advice: [] };
  const past = pastTimeout(facts);
  if (past) {
    const summary = `${firedWords(past)}, and its handler has not ended yet, on a worker that is alive.`;
    return { because: "past-timeout", summary, next: after.join(" "), ...quiet };
  }
  const summary = `It has been running for ${held} on a worker that is alive`;
  if (owner.status === "draining") {
    const next = [ENDS_WITH_HANDLER, ENDS_WITH_WORKER, ...after].join(" ");
    return { because: "owner-draining", summary: `${summary} and has been told to stop.`, next, ...quiet };
  }
  return { because: "owner-alive", summary: `${summary}.`, next: [ENDS_WITH_HANDLER, ...after].join(" "), ...quiet };
}

/** Between the look at the task and the look at its owner it moved on. */
function moved(): Finding {
  const next = "Ask again.";
  return { because: "owner-alive", summary: "It changed hands just now.", next, isStuck: false, advice: [] };
}

function evidenceLines(facts: TaskFacts, owner: OwnerFacts, settings: RecoverySettings): string[] {
  const { claimId, attempt, listening } = facts;
  const where = owner.hostname === null ? "" : ` on ${owner.hostname}, process ${owner.pid}`;
  const isHere = owner.status === "online" || owner.status === "draining";
  const isUnheard = !owner.isOfThisEpoch || unheardForMs(listening, settings.checkMs) !== undefined;
  const status = isHere && isUnheard ? "unheard" : owner.status;
  const lines = [`claim ${claimId}, attempt ${attempt}, owned by replica ${owner.replicaId}${where}: ${status}`];
  if (owner.heardAgoMs === null) lines.push("its owner has no heart on record");
  else {
    const silence = owner.silentForMs === null ? "" : `, a silence of ${formatDuration(owner.silentForMs)}`;
    lines.push(`its heart beat ${formatDuration(owner.heardAgoMs)} ago${silence}`);
    lines.push(sessionWords(owner, settings));
  }
  if (owner.runner) lines.push(runnerWords(owner.runner));
  lines.push(...timeoutEvidence(facts, owner));
  lines.push(...hungEvidence(facts, owner));
  if (owner.diedAgoMs !== null) lines.push(`declared dead ${formatDuration(owner.diedAgoMs)} ago`);
  if (listening) lines.push(`the last sweep was ${formatDuration(listening.sweptAgoMs)} ago`);
  lines.push(budgetWords(facts, settings));
  return lines;
}

function runnerWords({ kind, pid, status, heardAgoMs }: NonNullable<OwnerFacts["runner"]>): string {
  const where = kind === "process" ? `a process of its own (${pid})` : "a thread of its own";
  const heard = status === "ended" ? "" : `, heard ${formatDuration(Math.max(0, heardAgoMs))} ago`;
  return `it runs in ${where}: ${status}${heard}`;
}

function sessionWords({ hasSession, holdsSession }: OwnerFacts, settings: RecoverySettings): string {
  if (settings.sessionGraceMs === undefined) return "sessions do not count as evidence (sessionEvidence)";
  if (hasSession) return holdsSession ? "its session lock is held" : "its session lock is free";
  return "it has no session lock that counts (behind a pooler, just started, or the database was restarted): only its silence does";
}

function goneWords({ status, replicaId, death, hostname }: OwnerFacts): string {
  const who = `Its owner, replica ${replicaId}${hostname ? ` on ${hostname}` : ""},`;
  if (status === "missing") return `${who} is not on record at all.`;
  if (status === "offline") return `${who} has left without giving it back.`;
  return `${who} is dead: ${causeOf(readDeath(death))}.`;
}

/** By the evidence that the verdict is on. */
const DEATH_WORDS: { readonly [Reason in VerdictReason]: (owner: OwnerFacts) => string } = {
  "session-lost": ({ sessionFreeForMs }) =>
    `its database session ended ${formatDuration(sessionFreeForMs ?? 0)} ago and did not come back`,
  silent: ({ silentForMs }) => `its heart has been silent for ${formatDuration(silentForMs ?? 0)}`,
};

/** While nobody listens, a silence counts only where it is said how long it must be. Where nobody ever has, none is known. */
function recoveringUnheard(facts: TaskFacts): Advice[] {
  const { owner } = facts;
  const isHere = owner?.status === "online" || owner?.status === "draining";
  if (!owner || !isHere) return recoveringByHand(facts);
  if (owner.silentForMs === null) return [];
  const what = { state: facts.state as OwnedState, replicaId: owner.replicaId, after: UNHEARD_BY_HAND_MS };
  return [advise("Recover by hand what that replica holds, if it gives no sign of life.", "recovery.recover", what)];
}

function recoveringByHand({ state, owner }: TaskFacts): Advice[] {
  if (!owner) return [];
  const what = { state: state as OwnedState, replicaId: owner.replicaId };
  return [advise("Recover by hand what that replica holds.", "recovery.recover", what)];
}

const CONFIRM = adviceOnHold({ source: HEARTS, counted: "machines" });

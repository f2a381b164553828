/** How a task ended, and whether that is the end of it. */
import { formatDuration } from "../config/duration.ts";
import type { TaskFacts } from "../sql/explain-task.ts";
import type { Reason } from "./explain.ts";
import { progressEvidence } from "./explain-hung.ts";
import { counted, triesWords } from "./explain-words.ts";

type Ending = Omit<Reason, "evidence" | "isStuck">;

export function explainEnded(facts: TaskFacts): Reason {
  return { isStuck: false, ...endingOf(facts), evidence: evidenceOf(facts) };
}

function endingOf(facts: TaskFacts): Ending {
  const { id, state, error } = facts;
  const ago = facts.endedAgoMs === null ? "" : ` ${formatDuration(facts.endedAgoMs)} ago`;
  const why = error ? `: ${error.message}` : ".";
  const retry = `everbeat tasks retry ${id}`;
  if (state === "completed")
    return { because: "completed", summary: `It completed${ago}.`, next: "Nothing more.", advice: [] };
  if (state === "cancelled")
    return { because: "cancelled", summary: `It was cancelled${ago}${why}`, next: "Nothing more.", advice: [] };
  if (state === "expired")
    return { because: "expired", summary: `It expired${ago}${why}`, next: "Nothing more.", advice: [] };
  if (error?.code === "STALLED") {
    const summary = `It failed${ago} because it was stalled${why}`;
    return { because: "failed", summary, next: "Nothing, unless somebody runs it again.", advice: [retry] };
  }
  if (error?.code !== "WORKER_CRASHED") {
    const summary = `It failed${ago}, with no attempts left or none worth making${why}`;
    return { because: "failed", summary, next: "Nothing, unless somebody runs it again.", advice: [retry] };
  }
  const summary = `It failed${ago} because its worker died while running it. It may have had part of its effects.`;
  if (facts.review) {
    const note = facts.review.note === null ? "" : `: "${facts.review.note}"`;
    const next = `Nothing: it was reviewed ${formatDuration(facts.review.reviewedAgoMs)} ago${note}.`;
    return { because: "reviewed", summary, next, advice: [retry] };
  }
  return {
    because: "needs-review",
    summary,
    next: "Nothing, until somebody has looked at what it left behind.",
    advice: [`everbeat tasks review ${id} --done`, `everbeat tasks review ${id} --redrive`],
  };
}

function evidenceOf(facts: TaskFacts): string[] {
  const { attempt, failures, crashes, tookMs, error, late, claimId } = facts;
  const lines = [triesWords({ attempt, failures, crashes })];
  if (tookMs !== null) lines.push(`its last attempt, under claim ${claimId}, took ${formatDuration(tookMs)}`);
  lines.push(...progressEvidence(facts));
  if (error) lines.push(`${error.code}: ${error.message}`);
  if (late > 0) lines.push(`${counted(late, "late outcome was", "late outcomes were")} refused`);
  return lines;
}

/** How a task ended, and whether that is the end of it. */
import { advise } from "../advice.ts";
import { formatDuration } from "../config/duration.ts";
import type { TaskFacts } from "../sql/explain-task.ts";
import { type ErrorRecord, inOneLine } from "../task/error-record.ts";
import { readDeathIn } from "./death-in-error.ts";
import type { Reason } from "./explain.ts";
import { progressEvidence } from "./explain-hung.ts";
import { counted, deathsWords, triesWords } from "./explain-words.ts";
import { deadWords } from "./recovery-action.ts";
import { unchargedWords } from "./uncharged-words.ts";

type Ending = Omit<Reason, "evidence" | "isStuck">;

export function explainEnded(facts: TaskFacts): Reason {
  const ending = endingOf(facts);
  return { isStuck: false, ...ending, evidence: evidenceOf(facts, ending.summary) };
}

function endingOf(facts: TaskFacts): Ending {
  const { id, state, error } = facts;
  const ago = facts.endedAgoMs === null ? "" : ` ${formatDuration(facts.endedAgoMs)} ago`;
  const told = error ? `: ${inOneLine(error)}` : ".";
  const retry = advise("Run it again.", "tasks.retry", { ids: [id] });
  if (state === "completed")
    return { because: "completed", summary: `It completed${ago}.`, next: "Nothing more.", advice: [] };
  if (state === "cancelled")
    return { because: "cancelled", summary: `It was cancelled${ago}${told}`, next: "Nothing more.", advice: [] };
  if (state === "expired")
    return { because: "expired", summary: `It expired${ago}${told}`, next: "Nothing more.", advice: [] };
  if (error?.code === "POISONED") {
    return {
      because: "quarantined",
      summary: `It went into quarantine${ago}: it was running when ${deathsWords(facts.crashes, whoDied(error))} died, more than any other task there.${why(facts)}`,
      next: "Nothing, until somebody has found out why they died.",
      advice: [
        advise("See what they probably died of.", "post-mortems.show", { of: id }),
        advise("Run it again when the cause is mended, with its budget as new.", "tasks.retry", { ids: [id] }),
      ],
    };
  }
  if (error?.code === "NOT_CLAIMABLE") {
    return {
      because: "not-claimable",
      summary: `It was set aside${ago} without having run: every claim that met it failed${told}`,
      next: "Nothing, until somebody has put that right and runs it again.",
      advice: [advise("Put that right, then run it again.", "tasks.retry", { ids: [id] })],
    };
  }
  if (error?.code === "STALLED") {
    const summary = `It failed${ago} because it was stalled${told}`;
    return { because: "failed", summary, next: "Nothing, unless somebody runs it again.", advice: [retry] };
  }
  if (error?.code !== "WORKER_CRASHED" && error?.code !== "END_FORGOTTEN") {
    const summary = `It failed${ago}, with no attempts left or none worth making${told}`;
    return { because: "failed", summary, next: "Nothing, unless somebody runs it again.", advice: [retry] };
  }
  const summary =
    error.code === "END_FORGOTTEN"
      ? `It failed${ago} because the database has forgotten how it ended. The task may have had all of its effects.`
      : `It failed${ago} because its ${whoDied(error)} died while running it.${why(facts)} The task may have had part of its effects.`;
  if (facts.review) {
    const note = facts.review.note === null ? "" : `: "${facts.review.note}"`;
    const next = `Nothing: it was reviewed ${formatDuration(facts.review.reviewedAgoMs)} ago${note}.`;
    return { because: "reviewed", summary, next, advice: [retry] };
  }
  return {
    because: "needs-review",
    summary,
    next: "Nothing, until somebody has looked at what it left behind.",
    advice: [
      advise("Take it off the list of tasks to review, if nothing is left to do.", "review.mark", { ids: [id] }),
      advise("Run it again, if it can be repeated.", "tasks.retry", { ids: [id] }),
    ],
  };
}

/** Where it had a runner of its own, its worker is well. */
function whoDied(error: ErrorRecord): "runner" | "worker" {
  return readDeathIn(error).runner ? "runner" : "worker";
}

/** What that probably died of. */
function why({ postMortem }: TaskFacts): string {
  return postMortem ? ` ${postMortem.sentence}` : "";
}

function evidenceOf(facts: TaskFacts, summary: string): string[] {
  const { attempt, failures, crashes, tookMs, error, late, claimId } = facts;
  const lines = [triesWords({ attempt, failures, crashes })];
  const uncharged = error && crashes === 0 ? unchargedWords(error) : undefined;
  if (uncharged) lines.push(uncharged);
  if (tookMs !== null) lines.push(`its last attempt, under claim ${claimId}, took ${formatDuration(tookMs)}`);
  lines.push(...progressEvidence(facts));
  if (error) lines.push(errorWords(error, summary));
  if (late.length > 0) lines.push(lateWords(late));
  return lines;
}

/** What the summary says already is not said again. */
function errorWords(error: ErrorRecord, summary: string): string {
  const { code } = error;
  const death = readDeathIn(error);
  const { because, sentence } = death;
  if (summary.includes(inOneLine(error))) return `its error: ${code}`;
  const isSaid = because !== "unknown" && sentence && summary.includes(sentence);
  return `${code}: ${isSaid ? inOneLine({ code, message: deadWords(death) }) : inOneLine(error)}`;
}

function lateWords(late: TaskFacts["late"]): string {
  const total = late.reduce((sum, { count }) => sum + count, 0);
  const which = late.map(({ outcome, count }) => (late.length === 1 ? outcome : `${count} ${outcome}`)).join(", ");
  return `${counted(total, "late outcome was", "late outcomes were")} refused: ${which}`;
}

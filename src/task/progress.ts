/** What an attempt says of its own getting on, checked: a phase with its details, a share of the work with a note. Pure. */

import { clipGiven } from "../clip.ts";
import { describe } from "../config/checks.ts";
import { InvalidOptionsError } from "../config/problems.ts";
import { storableText } from "./error-record.ts";
import { problemLine, toJson } from "./json.ts";

/** A share from 0 to 1, or how many of how many. */
export type ProgressValue = number | { readonly done: number; readonly total: number };

export interface PhaseReport {
  readonly phase: string;
  /** As JSON text; null where there are none. */
  readonly details: string | null;
}

export interface ShareReport {
  readonly share: number;
  readonly done: number | null;
  readonly total: number | null;
  readonly note: string | null;
}

/** All that an attempt has last said of itself. */
export type Progress = Omit<PhaseReport, "phase"> &
  Omit<ShareReport, "share"> & { readonly phase: string | null; readonly share: number | null };

export const NO_PROGRESS: Progress = Object.freeze({
  ...{ phase: null, details: null, share: null, done: null, total: null, note: null },
});

const MAX_PHASE = 128;
const MAX_NOTE = 500;
const MAX_DETAILS_BYTES = 4_096;

export function checkPhase(name: unknown, details: unknown): PhaseReport {
  const problems: string[] = [];
  if (typeof name !== "string" || name === "" || name.length > MAX_PHASE) {
    problems.push(`name: must be text of 1 to ${MAX_PHASE} characters, not ${describe(name)}`);
  }
  const json = toJson(details, MAX_DETAILS_BYTES);
  if (!json.ok) problems.push(`details: ${problemLine(json)}`);
  if (problems.length > 0 || !json.ok) throw new InvalidOptionsError("phase", problems);
  return { phase: storableText(name as string), details: details == null ? null : json.text };
}

export function checkProgress(value: unknown, note: unknown): ShareReport {
  const problems: string[] = [];
  const share = shareOf(value);
  if (!share) {
    problems.push(`must be a share from 0 to 1, or { done, total } with numbers from 0 on, not ${describe(value)}`);
  }
  if (note !== undefined && note !== null && typeof note !== "string")
    problems.push(`note: must be text, not ${describe(note)}`);
  if (problems.length > 0 || !share) throw new InvalidOptionsError("progress", problems);
  return { ...share, note: typeof note === "string" ? storableText(clipGiven(note, MAX_NOTE)) : null };
}

/** Done may exceed what was thought to be the total: that is all of it, and no reason to fail a task. */
function shareOf(value: unknown): Omit<ShareReport, "note"> | undefined {
  if (typeof value === "number") {
    return value >= 0 && value <= 1 ? { share: value, done: null, total: null } : undefined;
  }
  const { done, total } = (value ?? {}) as { done?: unknown; total?: unknown };
  if (!isCount(done) || !isCount(total)) return undefined;
  return { share: total === 0 ? 1 : Math.min(1, done / total), done, total };
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}

/** The same again is no progress. */
export function isSameProgress(one: Progress, other: Progress): boolean {
  return (Object.keys(NO_PROGRESS) as (keyof Progress)[]).every((key) => one[key] === other[key]);
}

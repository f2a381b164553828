/** What one check found, and what to do about it. */
import type { Advice } from "../advice.ts";

export interface Finding {
  readonly check: string;
  readonly mark: "good" | "warning" | "wrong" | "skipped";
  readonly found: string;
  readonly advice: readonly Advice[];
}

export function good(check: string, found: string): Finding {
  return { check, mark: "good", found, advice: [] };
}

export function skipped(check: string, because: string): Finding {
  return { check, mark: "skipped", found: `not checked: ${because}`, advice: [] };
}

/** Something to know. Text is advice that no operation carries out. */
export function warning(check: string, found: string, ...advice: readonly (Advice | string)[]): Finding {
  return { check, mark: "warning", found, advice: advice.map(asAdvice) };
}

export function wrong(check: string, found: string, ...advice: readonly (Advice | string)[]): Finding {
  return { check, mark: "wrong", found, advice: advice.map(asAdvice) };
}

function asAdvice(advice: Advice | string): Advice {
  return typeof advice === "string" ? { sentence: advice } : advice;
}

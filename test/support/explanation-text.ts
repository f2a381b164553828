/** An explanation as one text, for golden ones. */
import type { Explanation } from "../../src/recovery/explain.ts";

export function explanationText({ state, summary, evidence, next, advice }: Explanation): string {
  return [
    `[${state}] ${summary}`,
    ...evidence.map((line) => `  · ${line}`),
    `Next: ${next}`,
    ...advice.map((line) => `  $ ${line}`),
  ].join("\n");
}

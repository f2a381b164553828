/** An explanation as one text, for golden ones. */
import { lineOf } from "../../src/cli/advice-line.ts";
import type { Explanation } from "../../src/recovery/explain.ts";

export function explanationText({ state, summary, evidence, next, advice }: Explanation): string {
  return [
    `[${state}] ${summary}`,
    ...evidence.map((line) => `  · ${line}`),
    `Next: ${next}`,
    ...advice.flatMap((each) => [
      `  → ${each.sentence}`,
      ...[lineOf(each, {}) ?? []].flat().map((line) => `    $ ${line}`),
    ]),
  ].join("\n");
}

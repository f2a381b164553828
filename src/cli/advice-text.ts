/** Advice as a person reads it: the sentence and, below it, the line to type. */
import type { Advice } from "../advice.ts";
import { lineOf } from "./advice-line.ts";
import { linesOf, printable } from "./printable.ts";
import type { Screen } from "./screen.ts";
import { prose } from "./wrap.ts";

/** The line is whole, so that it can be copied. */
export function adviceText(
  advice: Advice,
  { colours, width }: Pick<Screen, "colours" | "width">,
  indent = "  ",
): string[] {
  const sentence = linesOf(advice.sentence).flatMap((text, index) =>
    prose(text, { width, mark: `${indent}${index === 0 ? "→" : " "} `, paintMark: colours.cyan }),
  );
  const line = lineOf(advice);
  return line === undefined
    ? sentence
    : [...sentence, `${indent}  ${colours.dim("$")} ${colours.cyan(printable(line))}`];
}

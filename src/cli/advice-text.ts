/** Advice as a person reads it: the sentence and, below it, the line to type. */
import { type Advice, START_COMMAND } from "../advice.ts";
import { lineOf } from "./advice-line.ts";
import { linesOf, printable } from "./printable.ts";
import type { Screen } from "./screen.ts";
import { START_WORDS, typedCommand } from "./typed-command.ts";
import { prose } from "./wrap.ts";

/** The line is whole, so that it can be copied. */
export function adviceText(
  advice: Advice,
  { colours, width, given }: Pick<Screen, "colours" | "width" | "given">,
  indent = "  ",
): string[] {
  const words = advice.sentence.replace(START_COMMAND, () => typedCommand(START_WORDS, given));
  const sentence = linesOf(words).flatMap((text, index) =>
    prose(text, { width, mark: `${indent}${index === 0 ? "→" : " "} `, paintMark: colours.cyan }),
  );
  const line = lineOf(advice, given);
  return line === undefined
    ? sentence
    : [...sentence, `${indent}  ${colours.dim("$")} ${colours.cyan(printable(line))}`];
}

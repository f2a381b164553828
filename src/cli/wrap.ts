/** Texts over several lines, none of which is wider than there is room. */
import { printable } from "./printable.ts";
import { clipToWidth, splitAtWidth, widthOf } from "./text-width.ts";

export type Paint = (text: string) => string;

export interface ProseLook {
  readonly width: number;
  /** What stands before the first line. The others are indented by as much. */
  readonly mark?: string;
  readonly paint?: Paint;
  readonly paintMark?: Paint;
}

/** Something short that is said beside others. */
export interface Part {
  readonly text: string;
  readonly paint: Paint;
}

/** Where a terminal is narrower than this, lines are wider than it. */
const NARROWEST = 16;

/** Of one part among many, so that a long message does not push away all the others. */
const LINES_OF_A_PART = 3;

/** A sentence or several. Blanks at its beginning indent all its lines. */
export function prose(text: string, { width, mark = "", paint = String, paintMark = paint }: ProseLook): string[] {
  const blanks = /^ */.exec(text)?.[0] ?? "";
  const indent = widthOf(mark) + blanks.length;
  return wrap(printable(text.slice(blanks.length)), width - indent).map((line, index) =>
    index === 0 ? `${paintMark(mark)}${blanks}${paint(line)}` : `${" ".repeat(indent)}${paint(line)}`,
  );
}

/** As many parts on each line as fit. A part that fits into a line is not broken. */
export function pack(parts: readonly Part[], { width, between }: { width: number; between: string }): string[] {
  const lines: { width: number; text: string }[] = [];
  for (const { text, paint } of parts) {
    const [first = "", ...rest] = wrap(text, width, LINES_OF_A_PART);
    const last = lines.at(-1);
    const widthBeside = (last?.width ?? width) + widthOf(between) + widthOf(first);
    if (last && widthBeside <= width)
      lines[lines.length - 1] = { width: widthBeside, text: `${last.text}${between}${paint(first)}` };
    else lines.push({ width: widthOf(first), text: paint(first) });
    lines.push(...rest.map((line) => ({ width: widthOf(line), text: paint(line) })));
  }
  return lines.map((line) => line.text);
}

/** Broken between words; within a word only where it is longer than a line. Of more than `most` lines, the last ends with an ellipsis. */
export function wrap(text: string, width: number, most = Number.POSITIVE_INFINITY): string[] {
  const room = Math.max(NARROWEST, width);
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line === "" ? word : `${line} ${word}`;
    // A word that is longer than a line is broken anyway, so it begins beside the others. Any other word stays whole.
    const isTooLong = !fits(word, room);
    if (!isTooLong && !fits(longer, room)) {
      lines.push(line);
      line = word;
    } else line = longer;
    for (let [head, rest] = splitAtWidth(line, room); rest !== ""; [head, rest] = splitAtWidth(line, room)) {
      lines.push(head);
      line = rest;
      if (lines.length > most) break;
    }
    if (lines.length > most) break;
  }
  if (line !== "" || lines.length === 0) lines.push(line);
  if (lines.length <= most) return lines;
  return [...lines.slice(0, most - 1), clipToWidth(lines.slice(most - 1).join(" "), room)];
}

function fits(text: string, width: number): boolean {
  return splitAtWidth(text, width)[1] === "";
}

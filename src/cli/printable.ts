/** Text on a terminal: a character that would command the terminal, or turn its text around, is shown instead of sent. */
import { unicodeEscape, withoutCommands } from "../control-characters.ts";

const NAMED: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** One line of it: also a line end is shown. JSON stays JSON, because what JSON does not escape itself is shown as `\u009b`. */
export function printable(text: string): string {
  return withoutCommands(text, (sign) => NAMED[sign] ?? (sign < " " ? shortEscape(sign) : unicodeEscape(sign)));
}

function shortEscape(sign: string): string {
  return `\\x${sign.charCodeAt(0).toString(16).padStart(2, "0")}`;
}

/** The lines of a text that keeps its line ends, because whoever asks indents each of them. */
export function linesOf(text: string): string[] {
  return text.split(/\r?\n/);
}

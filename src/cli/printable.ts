/** Text on a terminal: a character that would command the terminal, or turn its text around, is shown instead of sent. */

/** Controls (C0, DEL, C1), line and paragraph separators, marks of direction, halves of surrogate pairs. */
const COMMANDING = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Cs}]/gu;

const NAMED: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** One line of it: also a line end is shown. JSON stays JSON, because what JSON does not escape itself is shown as `\u009b`. */
export function printable(text: string): string {
  return text.replace(COMMANDING, (sign) => NAMED[sign] ?? shown(sign.charCodeAt(0)));
}

function shown(code: number): string {
  return code < 0x20 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** The lines of a text that keeps its line ends, because whoever asks indents each of them. */
export function linesOf(text: string): string[] {
  return text.split(/\r?\n/);
}

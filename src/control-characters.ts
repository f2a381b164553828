/**
 * Characters that a terminal obeys, or that turn its text around: controls (C0, DEL, C1), line and paragraph separators, marks of
 * direction, halves of surrogate pairs. Where texts of users are written for people to read, these are shown instead of sent.
 */
const COMMANDING = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Cs}]/gu;

/** The text, with `shown` in the place of each of them. */
export function withoutCommands(text: string, shown: (sign: string) => string): string {
  return text.replace(COMMANDING, shown);
}

/** Each is one unit of UTF-16. */
export function unicodeEscape(sign: string): string {
  return `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** The same JSON: in a string, what JSON does not escape by itself is escaped too. Between values, it has line ends and no other of these. */
export function readableJson(json: string): string {
  return withoutCommands(json, (sign) => (sign === "\n" ? sign : unicodeEscape(sign)));
}

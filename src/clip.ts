/** Shortens a text for a record, a message or a screen. */

/**
 * A text that was put together of others is in one piece only once somebody reads a character of it, and that piece may be larger than the heap. So
 * of a handler's texts that are longer than this the length alone is looked at.
 */
const MOST_READ = 4_194_304;
const UNREAD = "(a text that is too long to be shown)";

export function isReadable(text: string): boolean {
  return text.length <= MOST_READ;
}

/** Like `clip`, for what a handler gives. */
export function clipGiven(text: string, most: number, ending = ""): string {
  return isReadable(text) ? clip(text, most, ending) : `${clip(UNREAD, most)}${ending}`;
}

/** At most so many UTF-16 units, never half a character. If something was left out, the ending is added. */
export function clip(text: string, most: number, ending = ""): string {
  if (text.length <= most) return text;
  return `${text.slice(0, Math.max(0, most)).replace(/[\uD800-\uDBFF]$/, "")}${ending}`;
}

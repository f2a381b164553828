/** Shortens a text for a record, a message or a screen. */

/** At most so many UTF-16 units, never half a character. If something was left out, the ending is added. */
export function clip(text: string, most: number, ending = ""): string {
  if (text.length <= most) return text;
  return `${text.slice(0, Math.max(0, most)).replace(/[\uD800-\uDBFF]$/, "")}${ending}`;
}

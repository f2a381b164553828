/** Shortens a text for a record, a message or a screen. */

/** At most so many of its units, never half a character; with the ending where something was left out. */
export function clip(text: string, most: number, ending = ""): string {
  if (text.length <= most) return text;
  return `${text.slice(0, Math.max(0, most)).replace(/[\uD800-\uDBFF]$/, "")}${ending}`;
}

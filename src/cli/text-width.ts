/** How many columns of a terminal a text takes, and texts that are cut or filled up to so many. */

/** In the order in which people count characters: an emoji of several code points is one. */
const characters = new Intl.Segmenter(undefined, { granularity: "grapheme" });

const PLAIN = /^[\x20-\x7e]*$/;

/** Shown as a picture, which takes two columns. */
const PICTURE = /\p{Emoji_Presentation}|\p{RI}|\uFE0F/u;

/** Combining marks, joiners and the later parts of a Korean syllable stand on the character before them. */
const WITHOUT_WIDTH = /[\p{Mn}\p{Me}\p{Cf}\u1160-\u11FF]/u;

/** Wide and full-width characters by Unicode's East Asian Width (UAX 11): Chinese, Japanese, Korean, Yi and Tangut, with their signs. */
const WIDE =
  /[\u1100-\u115F\u2E80-\u303E\u3041-\uA4CF\uA960-\uA97F\uAC00-\uD7A3\uF900-\uFAFF\uFE10-\uFE19\uFE30-\uFE6F\uFF01-\uFF60\uFFE0-\uFFE6\u{16FE0}-\u{1B2FF}\u{20000}-\u{3FFFD}]/u;

export function widthOf(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const { segment } of characters.segment(text)) width += widthOfCharacter(segment);
  return width;
}

/** At most so many columns. Where something was left out, the last of them is an ellipsis. */
export function clipToWidth(text: string, width: number): string {
  if (splitAtWidth(text, width)[1] === "") return text;
  return `${splitAtWidth(text, width - 1)[0]}…`;
}

/** What fits into so many columns, and the rest. A character is never split. It reads no further than it must: texts may be long. */
export function splitAtWidth(text: string, width: number): readonly [string, string] {
  let taken = 0;
  for (const { segment, index } of characters.segment(text)) {
    taken += widthOfCharacter(segment);
    if (taken > width) return [text.slice(0, index), text.slice(index)];
  }
  return [text, ""];
}

export function padToWidth(text: string, width: number, align?: "right"): string {
  const blanks = " ".repeat(Math.max(0, width - widthOf(text)));
  return align === "right" ? `${blanks}${text}` : `${text}${blanks}`;
}

function widthOfCharacter(character: string): number {
  if (PLAIN.test(character)) return character.length;
  if (PICTURE.test(character)) return 2;
  return [...character].reduce((sum, sign) => sum + widthOfSign(sign), 0);
}

function widthOfSign(sign: string): number {
  if (WITHOUT_WIDTH.test(sign)) return 0;
  return WIDE.test(sign) ? 2 : 1;
}

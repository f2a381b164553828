/**
 * JSON that is long goes to the database as a parameter of its own. If it were put into other JSON, it would be
 * escaped here, and the server would read and copy it once for each level around it: half of what a task with a megabyte in and out costs
 * (bench, `size`).
 */

const LONG_CHARACTERS = 32_768;
const MOST_APART = 512;

export function isLong(text: string | undefined): text is string {
  return text !== undefined && text.length >= LONG_CHARACTERS;
}

/** Whether they are long on average, and not too many for one statement. */
export function areLong(texts: readonly string[]): boolean {
  if (texts.length > MOST_APART) return false;
  return texts.reduce((characters, text) => characters + text.length, 0) >= texts.length * LONG_CHARACTERS;
}

export interface LongValues {
  /** The list of them in SQL. */
  readonly list: string;
  readonly values: readonly (string | null)[];
}

/** `before`: how many parameters the statement has already. The list is filled up with nulls to a power of two, so that there are few different statements. */
export function longValues(texts: readonly string[], before: number): LongValues {
  const places = 2 ** Math.ceil(Math.log2(texts.length));
  const list = Array.from({ length: places }, (_, index) => `$${before + index + 1}::json`);
  return { list: `array[${list.join(", ")}]`, values: list.map((_, index) => texts[index] ?? null) };
}

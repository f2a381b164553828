/** Which columns of a table stand beside each other, and how wide each is. The others go below their row. Pure. */

export interface ColumnSize {
  readonly title: number;
  readonly cells: readonly number[];
  /** Undefined where it may not be shortened. */
  readonly atLeast: number | undefined;
}

export const GAP = "  ";

/**
 * The widths of the columns that stand beside each other: the first, and of the others, in their order, as many as fit. The first column
 * names the row, and is never shortened. A name that is wider than its column stands on a line of its own.
 */
export function layOut(columns: readonly ColumnSize[], room: number): number[] {
  const natural = columns.map(({ title, cells }) => Math.max(title, ...cells));
  if (takenBy(natural) <= room) return natural;
  const least = columns.map((column, index) =>
    index === 0 ? widthOfNames(column, room) : leastWidth(column, natural[index] ?? 0),
  );
  while (least.length > 1 && takenBy(least) > room) least.pop();
  return shareOut(least, natural, room - takenBy(least));
}

/** As wide as the longest name that leaves half of the room to the other columns. */
function widthOfNames({ title, cells }: ColumnSize, room: number): number {
  return Math.max(title, ...cells.filter((cell) => cell <= room / 2));
}

function leastWidth({ title, atLeast }: ColumnSize, natural: number): number {
  return atLeast === undefined ? natural : Math.min(natural, Math.max(title, atLeast));
}

/** The room that is left goes to the columns that are shortened, in equal parts. */
function shareOut(least: readonly number[], natural: readonly number[], left: number): number[] {
  const widths = [...least];
  const short = [...least.keys()].slice(1).map((index) => ({ index, by: (natural[index] ?? 0) - (least[index] ?? 0) }));
  short.sort((a, b) => a.by - b.by);
  for (const [place, { index, by }] of short.entries()) {
    const more = Math.min(by, Math.floor(left / (short.length - place)));
    widths[index] = (widths[index] ?? 0) + more;
    left -= more;
  }
  return widths;
}

function takenBy(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, GAP.length * Math.max(0, widths.length - 1));
}

/** Rows under aligned headings. */
import type { Colours } from "./colours.ts";

export interface Column<Row> {
  readonly title: string;
  readonly value: (row: Row) => string;
  /** Applied after alignment, so that colour codes never count as width. */
  readonly style?: (text: string, row: Row) => string;
  readonly align?: "right";
  /** Left out where no row has anything in it. */
  readonly isOptional?: boolean;
}

export interface TableLook {
  readonly colours: Colours;
  readonly width?: number | undefined;
  readonly indent?: number;
}

const GAP = "  ";

export function table<Row>(rows: readonly Row[], columns: readonly Column<Row>[], look: TableLook): string {
  const shown = columns
    .map((column) => ({ ...column, cells: rows.map((row) => oneLine(column.value(row))) }))
    .filter((column) => !column.isOptional || column.cells.some((cell) => cell !== ""));
  const widths = shown.map((column) => Math.max(column.title.length, ...column.cells.map((cell) => cell.length)));
  const indent = " ".repeat(look.indent ?? 0);
  fitLast(widths, indent.length, look.width);

  const aligned = (text: string, index: number) => {
    const width = widths[index] ?? 0;
    const clipped = text.length > width ? `${text.slice(0, width - 1)}…` : text;
    if (shown[index]?.align === "right") return clipped.padStart(width);
    // Nothing after the last column: trailing blanks only get in the way of copying.
    return index === shown.length - 1 ? clipped : clipped.padEnd(width);
  };
  const head = shown.map((column, index) => look.colours.dim(aligned(column.title, index))).join(GAP);
  const lines = rows.map((row, line) =>
    shown
      .map((column, index) => {
        const text = aligned(column.cells[line] ?? "", index);
        return column.style ? column.style(text, row) : text;
      })
      .join(GAP),
  );
  return [head, ...lines].map((line) => `${indent}${line}`.trimEnd()).join("\n");
}

/** Only the last column may be shortened: it holds remarks, the others hold what people copy. */
function fitLast(widths: number[], indent: number, width: number | undefined): void {
  const last = widths.at(-1);
  if (width === undefined || last === undefined) return;
  const before = widths.slice(0, -1).reduce((sum, each) => sum + each + GAP.length, indent);
  widths[widths.length - 1] = Math.min(last, Math.max(20, width - before));
}

function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, " ");
}

/** Names and values, the values one under the other. */
export function pairs(entries: readonly (readonly [string, string | undefined])[], look: TableLook): string {
  const given = entries.filter((entry): entry is readonly [string, string] => entry[1] !== undefined);
  const width = Math.max(...given.map(([name]) => name.length));
  const indent = " ".repeat(look.indent ?? 0);
  return given
    .map(([name, value]) => {
      const rest = value.replaceAll("\n", `\n${indent}${" ".repeat(width + GAP.length)}`);
      return `${indent}${look.colours.dim(name.padEnd(width))}${GAP}${rest}`;
    })
    .join("\n");
}

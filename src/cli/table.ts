/** Rows under aligned headings. */
import { clip } from "../config/clip.ts";
import type { Colours } from "./colours.ts";
import { linesOf, printable } from "./printable.ts";

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

export function table<Row>(rows: readonly Row[], columns: readonly Column<Row>[], look: TableLook): string[] {
  const shown = columns
    .map((column) => ({ ...column, cells: rows.map((row) => oneLine(column.value(row))) }))
    .filter((column) => !column.isOptional || column.cells.some((cell) => cell !== ""));
  const widths = shown.map((column) => Math.max(column.title.length, ...column.cells.map((cell) => cell.length)));
  const indent = " ".repeat(look.indent ?? 0);
  fitLast(widths, indent.length, look.width);

  const aligned = (text: string, index: number) => {
    const width = widths[index] ?? 0;
    const fitting = text.length > width ? clip(text, width - 1, "…") : text;
    if (shown[index]?.align === "right") return fitting.padStart(width);
    // Nothing after the last column: trailing blanks only get in the way of copying.
    return index === shown.length - 1 ? fitting : fitting.padEnd(width);
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
  return [head, ...lines].map((line) => `${indent}${line}`.trimEnd());
}

/** Only the last column may be shortened: it holds remarks, the others hold what people copy. */
function fitLast(widths: number[], indent: number, width: number | undefined): void {
  const last = widths.at(-1);
  if (width === undefined || last === undefined) return;
  const before = widths.slice(0, -1).reduce((sum, each) => sum + each + GAP.length, indent);
  widths[widths.length - 1] = Math.min(last, Math.max(20, width - before));
}

/** Cells are made printable here, before the screen does it, because the width of a cell is that of the printable text. */
function oneLine(text: string): string {
  return printable(text.replace(/\s*\n\s*/g, " "));
}

/** Names and values, the values one under the other; a value of several lines is indented as one. */
export function pairs(entries: readonly (readonly [string, string | undefined])[], look: TableLook): string[] {
  const given = entries.filter((entry): entry is readonly [string, string] => entry[1] !== undefined);
  const width = Math.max(...given.map(([name]) => name.length));
  const indent = " ".repeat(look.indent ?? 0);
  return given.flatMap(([name, value]) => {
    const [first = "", ...rest] = linesOf(value);
    const below = rest.map((line) => `${indent}${" ".repeat(width + GAP.length)}${line}`);
    return [`${indent}${look.colours.dim(name.padEnd(width))}${GAP}${first}`, ...below];
  });
}

/** A text of several lines that is not ours: each of its lines has a bar before it. */
export function quoted(text: string, { colours, indent = 2 }: TableLook): string[] {
  return linesOf(text).map((line) => `${" ".repeat(indent)}${colours.dim(`│ ${line}`)}`);
}

/** Parts with an empty line between them. */
export function paragraphs(...parts: readonly (readonly string[])[]): string[] {
  return parts.flatMap((part, index) => (index === 0 ? part : ["", ...part]));
}

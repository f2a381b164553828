/** Rows under aligned headings. What does not fit into the width goes below its row. */
import { clip } from "../clip.ts";
import type { Colours } from "./colours.ts";
import { linesOf, printable } from "./printable.ts";
import { GAP, layOut } from "./table-layout.ts";
import { clipToWidth, padToWidth, widthOf } from "./text-width.ts";
import { type Paint, type Part, pack, prose, wrap } from "./wrap.ts";

/** Columns are given in the order of their importance: the last ones are the first to go below. */
export interface Column<Row> {
  readonly title: string;
  readonly value: (row: Row) => string;
  /** Applied after alignment, so that colour codes never count as width. */
  readonly style?: (text: string, row: Row) => string;
  readonly align?: "right";
  /** Left out where no row has anything in it. */
  readonly isOptional?: boolean;
  /** It may be shortened to this width. Without it the text stays whole, as an id must that people copy. */
  readonly atLeast?: number;
  /** What is said before the value where it stands below its row. Without it that is the title, in small letters. */
  readonly label?: string;
  /** Below its row it has one line at most. */
  readonly isBrief?: boolean;
}

export interface TableLook {
  readonly colours: Colours;
  readonly width: number;
  readonly indent?: number;
}

/** A column with the text of its cells. */
interface FilledColumn<Row> extends Column<Row> {
  readonly cells: readonly string[];
}

/** What a cell says that has nothing to say. */
export const NOTHING = "–";

const INDENT_BELOW = 4;

/** In UTF-16 units. It is more than a table shows of any text, and spares measuring the rest of a long one. */
const LONGEST_CELL = 1_000;

export function table<Row>(rows: readonly Row[], columns: readonly Column<Row>[], look: TableLook): string[] {
  const indent = look.indent ?? 0;
  const room = look.width - indent;
  const filled = columns
    .map((column) => ({ ...column, cells: rows.map((row) => oneLine(column.value(row))) }))
    .filter((column) => !column.isOptional || column.cells.some((cell) => cell !== ""));
  const widths = layOut(
    filled.map(({ title, cells, atLeast }) => ({ title: widthOf(title), cells: cells.map(widthOf), atLeast })),
    room,
  );
  const beside = filled.slice(0, widths.length);
  const below = filled.slice(widths.length);
  const head = beside.map(({ title, align }, index) => look.colours.dim(aligned(title, widths[index] ?? 0, align)));
  const lines = rows.flatMap((row, line) => [
    ...linesBeside(row, line, { columns: beside, widths, room }),
    ...linesBelow(row, line, { columns: below, colours: look.colours, room }),
  ]);
  return [head.join(GAP), ...lines].map((line) => `${" ".repeat(indent)}${line}`.trimEnd());
}

function linesBeside<Row>(
  row: Row,
  line: number,
  { columns, widths, room }: { columns: readonly FilledColumn<Row>[]; widths: readonly number[]; room: number },
): string[] {
  const [name] = columns;
  const isTooLong = widthOf(name?.cells[line] ?? "") > (widths[0] ?? 0);
  const own = isTooLong ? wrap(name?.cells[line] ?? "", room) : [];
  const cells = columns.map(({ cells, align, style = String }, index) => {
    const text = isTooLong && index === 0 ? "" : (cells[line] ?? "");
    const width = widths[index] ?? 0;
    // Nothing after the last column: trailing blanks only get in the way of copying.
    const isLast = index === columns.length - 1 && align === undefined;
    return style(isLast ? clipToWidth(text, width) : aligned(text, width, align), row);
  });
  const styled = own.map((text) => (name?.style ?? String)(text, row));
  return isTooLong && columns.length === 1 ? styled : [...styled, cells.join(GAP)];
}

function linesBelow<Row>(
  row: Row,
  line: number,
  { columns, colours, room }: { columns: readonly FilledColumn<Row>[]; colours: Colours; room: number },
): string[] {
  const width = room - INDENT_BELOW;
  const parts = columns.flatMap(({ cells, title, label = title.toLowerCase(), style, isBrief }): Part[] => {
    const cell = cells[line] ?? "";
    if (cell === "" || cell === NOTHING) return [];
    const paint = (text: string) => (style ? style(text, row) : colours.dim(text));
    const text = label === "" ? cell : `${label} ${cell}`;
    return [{ text: isBrief ? clipToWidth(text, width) : text, paint }];
  });
  return pack(parts, { width, between: " · " }).map((text) => `${" ".repeat(INDENT_BELOW)}${text}`);
}

function aligned(text: string, width: number, align?: "right"): string {
  return padToWidth(clipToWidth(text, width), width, align);
}

/** Cells are made printable here, before the screen does it, because the width of a cell is that of the printable text. */
function oneLine(text: string): string {
  return printable(clip(text, LONGEST_CELL, "…").replace(/\s*\n\s*/g, " "));
}

/** A name, and the text beside it. Without a `paint` it stays as it is, as an id or JSON must that people copy. */
export type Pair = readonly [name: string, value: string | undefined, paint?: Paint];

/** Names and values, the values one under the other. Those with a paint are wrapped. */
export function pairs(entries: readonly Pair[], { colours, width: whole, indent: blanks = 0 }: TableLook): string[] {
  const given = entries.filter(([, value]) => value !== undefined);
  const width = Math.max(...given.map(([name]) => name.length));
  const indent = " ".repeat(blanks);
  const room = whole - blanks - width - GAP.length;
  return given.flatMap(([name, value = "", paint]) => {
    const lines = linesOf(value);
    const shown = paint ? lines.flatMap((line) => prose(line, { width: room, paint })) : lines;
    return shown.map((line, index) => {
      const title = (index === 0 ? name : "").padEnd(width);
      return `${indent}${index === 0 ? colours.dim(title) : title}${GAP}${line}`;
    });
  });
}

/** A text of several lines that is not ours: each of its lines has a bar before it. */
export function quoted(text: string, { colours, indent = 2 }: Omit<TableLook, "width">): string[] {
  return linesOf(text).map((line) => `${" ".repeat(indent)}${colours.dim(`│ ${line}`)}`);
}

/** Parts with an empty line between them. Those that are empty are left out. */
export function paragraphs(...parts: readonly (readonly string[])[]): string[] {
  const full = parts.filter((part) => part.length > 0);
  return full.flatMap((part, index) => (index === 0 ? part : ["", ...part]));
}

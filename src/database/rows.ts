/**
 * Rows as objects. The driver is asked for arrays and the objects are made here: its own way makes each from nothing, name by
 * name, which takes longer than reading the row. A caller's pool may be of a driver that knows only objects.
 */
import type pg from "pg";

export function toObjects<Row>({ rows, fields }: pg.QueryArrayResult<unknown[]>): Row[] {
  if (!Array.isArray(rows[0])) return rows as Row[];
  const names = fields.map((field) => field.name);
  const empty: Record<string, unknown> = {};
  for (const name of names) empty[name] = null;
  return rows.map((values) => {
    const row = { ...empty };
    for (let index = 0; index < names.length; index++) row[names[index] as string] = values[index];
    return row as Row;
  });
}

/** Rows as lists of their values, in the order of the columns. */
export function toLists({ rows, fields }: pg.QueryArrayResult<unknown[]>): unknown[][] {
  if (rows.length === 0 || Array.isArray(rows[0])) return rows;
  const objects = rows as unknown as Record<string, unknown>[];
  return objects.map((row) => fields.map(({ name }) => row[name]));
}

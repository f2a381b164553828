/**
 * Rows as objects. The driver is asked for arrays and the objects are made here: its own way makes each from nothing, name by
 * name, which takes longer than reading the row.
 */
import type pg from "pg";

export function toObjects<Row>({ rows, fields }: pg.QueryArrayResult<unknown[]>): Row[] {
  // A caller's pool may be of a driver that knows only objects.
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

/** Time passes by moving every stamp in the database into the past, so that nothing has to be waited for. */
import type { Database } from "../../src/database/database.ts";

/**
 * Every column that is an instant, whatever migrations add: nobody sees a world in which only a part has moved. The server's own start, by
 * which it is known again, stays where it is.
 */
export async function timeMover(database: Database): Promise<(ms: number) => Promise<void>> {
  const columns = await database.query<{ table: string; column: string }>(
    `select c.table_name as "table", c.column_name as "column"
     from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
     where c.table_schema = $1 and c.data_type = 'timestamp with time zone' and t.table_type = 'BASE TABLE' and c.table_name not in ('migration', 'epoch_marker')`,
    [database.schemaName],
  );
  const moves = [...new Set(columns.map(({ table }) => table))].map((table) => {
    const set = columns
      .filter((one) => one.table === table)
      .map(({ column }) => `${column} = ${column} - make_interval(secs => $1::float8 / 1000)`)
      .join(", ");
    return `moved_${table} as (update ${database.schema}.${table} set ${set})`;
  });
  return async (ms) => {
    await database.query(`with ${moves.join(", ")} select`, [ms]);
  };
}

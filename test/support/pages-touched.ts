/** How much of its tables a statement looks at: what it costs, however busy the machine is. */
import type pg from "pg";
import { eventually } from "./eventually.ts";

/** Pages touched by the statement, in cache or not, as the server counts them. Ends all other sessions of the database. */
export async function pagesTouched(client: pg.Client, text: string, values: unknown[] = []): Promise<number> {
  await endOthers(client);
  const before = await counted(client);
  await client.query(text, values);
  return (await counted(client)) - before;
}

async function counted(client: pg.Client): Promise<number> {
  await client.query("select pg_stat_force_next_flush()");
  const { rows } = await client.query(
    "select sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read, 0) + coalesce(idx_blks_hit, 0))::int as pages from pg_statio_user_tables where schemaname = 'everbeat'",
  );
  return rows[0].pages as number;
}

/** What a session has touched is added when it has been idle for ten seconds, or ends: it would be counted as the statement's. */
async function endOthers(client: pg.Client): Promise<void> {
  const others =
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
  await eventually(() => client.query(others), {
    until: ({ rowCount }) => rowCount === 0,
    what: "the end of other sessions",
  });
}

/** Whether a connection is a session of its own, on which locks and LISTEN mean something. */
import type pg from "pg";
import { runOn } from "./database.ts";

/**
 * The server's process is the one that the driver was told of at connect: no pooler in between that gives each transaction
 * another session. Asked before any lock is taken, since an idle pooler can look like a session for a while.
 */
export async function isOwnSession(client: pg.Client): Promise<boolean> {
  const [row] = await runOn<{ pid: number }>(client, "select pg_backend_pid() as pid");
  return row?.pid === (client as unknown as { processID: number }).processID;
}

/** Whether a connection is a session of its own, and whether notices arrive on it: what a pooler may stand in the way of. */
import { performance } from "node:perf_hooks";
import type pg from "pg";
import { delay } from "./backoff.ts";
import type { Database } from "./database.ts";

export interface SessionProbe {
  /** The server's process is the one that the driver was told of at connect: nothing sits in between. */
  readonly isDirect: boolean;
  /** How long a notice took from another connection to this one; undefined where none came. */
  readonly noticeMs: number | undefined;
}

const PATIENCE_MS = 2_000;

export async function probeSession(database: Database): Promise<SessionProbe> {
  const { client, session } = await database.ownSession();
  try {
    const { isDirect } = session;
    // Behind a pooler, the LISTEN would stay behind on a session that goes to others.
    return { isDirect, noticeMs: isDirect ? await timeNotice(client, database) : undefined };
  } finally {
    await client.end().catch(() => {});
  }
}

async function timeNotice(client: pg.Client, database: Database): Promise<number | undefined> {
  const arrived = new AbortController();
  // A channel of its own: workers listen on the schema's.
  const channel = `everbeat_doctor_${process.pid}`;
  client.on("notification", (notice) => notice.channel === channel && arrived.abort());
  await client.query(`listen ${channel}`);
  const sentAt = performance.now();
  await database.query("select pg_notify($1, 'probe')", [channel]);
  await delay(PATIENCE_MS, arrived.signal);
  return arrived.signal.aborted ? performance.now() - sentAt : undefined;
}

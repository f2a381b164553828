/** Two ways in which a server that keeps its word comes to forget, for servers of either kind: the embedded one and Debian's. */
import pg from "pg";
import { eventually } from "./eventually.ts";
import type { Forgetting } from "./forgetting.ts";
import { startForwarder } from "./forwarder.ts";

interface Server {
  readonly url: string;
  readonly port: number;
  start(): Promise<void> | void;
  kill(): Promise<void> | void;
}

interface Primary extends Server {
  standby(): Promise<{ readonly port: number; promote(): Promise<void> | void }>;
}

interface Restorable extends Server {
  backUp(): Promise<void> | void;
  restore(): Promise<void> | void;
}

/** An asynchronous standby gets nothing any more, and is promoted in the place of its primary, which is killed. */
export async function promotedBehind(primary: Primary): Promise<Forgetting> {
  const standby = await primary.standby();
  const { port, leadTo } = await startForwarder(primary.port);
  const url = new URL(primary.url);
  url.port = String(port);
  let sender = 0;
  return {
    url: url.href,
    async point() {
      sender = await senderOf(primary.url);
      process.kill(sender, "SIGSTOP");
    },
    async lose() {
      await primary.kill();
      process.kill(sender, "SIGKILL");
      await standby.promote();
      leadTo(standby.port);
    },
  };
}

/** A base backup is restored at the same address, while workers of a later time still run. */
export function restoredFromBackup(server: Restorable): Forgetting {
  return {
    url: server.url,
    point: () => server.backUp(),
    async lose() {
      await server.kill();
      await server.restore();
      await eventually(async () => {
        await server.start();
        return true;
      });
    },
  };
}

/** The process that sends the log to the standby. */
async function senderOf(url: string): Promise<number> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    const { rows } = await client.query("select pid from pg_stat_replication");
    if (rows.length !== 1) throw new Error(`${rows.length} standbys follow, and there should be one`);
    return rows[0].pid;
  } finally {
    await client.end();
  }
}

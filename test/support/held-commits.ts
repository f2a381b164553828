/**
 * A server whose commits wait for a standby that does not exist: what they wrote is on disk, and they are not done. Commits that do
 * not wait for the disk are done at once.
 */
import pg from "pg";
import { onTestFinished } from "vitest";
import { eventually } from "./eventually.ts";

export interface HeldCommits {
  /** How many statements with this text have come to their commit, and wait. */
  waiting(text: string): Promise<number>;
  /** Ends the sessions of those. */
  terminate(text: string): Promise<void>;
  release(): Promise<void>;
  /** From the next start of the server on, nothing is held. */
  releaseAtNextStart(): Promise<void>;
}

const WAITING = "wait_event = 'SyncRep' and position($1 in query) > 0";

export async function holdCommits(url: string): Promise<HeldCommits> {
  const client = new pg.Client(url);
  client.on("error", () => {});
  await client.connect();
  onTestFinished(() => client.end().catch(() => {}));
  const ask = async (text: string) => {
    const { rows } = await client.query(`select count(*)::int as n from pg_stat_activity where ${WAITING}`, [text]);
    return (rows[0] as { n: number }).n;
  };
  const forget = () => client.query("alter system reset synchronous_standby_names");
  await client.query("create table held (n int)");
  await client.query("alter system set synchronous_standby_names = 'nobody'");
  await client.query("select pg_reload_conf()");
  await untilHeld(url, ask);
  return {
    waiting: ask,
    async terminate(text) {
      await client.query(`select pg_terminate_backend(pid) from pg_stat_activity where ${WAITING}`, [text]);
    },
    async release() {
      await forget();
      await client.query("select pg_reload_conf()");
    },
    async releaseAtNextStart() {
      await forget();
    },
  };
}

/** The server takes up a setting in its own time. */
async function untilHeld(url: string, waiting: (text: string) => Promise<number>): Promise<void> {
  const probe = new pg.Client(url);
  probe.on("error", () => {});
  await probe.connect();
  onTestFinished(() => probe.end().catch(() => {}));
  let isDone = true;
  const commit = () => {
    isDone = false;
    probe.query("insert into held values (1)").then(
      () => {
        isDone = true;
      },
      () => {},
    );
  };
  await eventually(
    async () => {
      if (isDone) commit();
      return (await waiting("insert into held")) === 1;
    },
    { within: 30_000, what: "commits to be held" },
  );
}

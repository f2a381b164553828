/** A server that does not wait for the disk is killed, and has forgotten what it had not yet written when it is there again. */
import pg from "pg";
import { test } from "vitest";
import { expectRightsToSurvive, FORGETTING_SETTINGS } from "../support/forgetting.ts";
import { startOwnServer } from "../support/own-server.ts";

test("killed with synchronous_commit = off, under load: nothing is written about a task by whoever had another one", {
  timeout: 240_000,
}, async () => {
  // What is not written by the process for it, which stands still from the point on, is in memory only.
  const server = await startOwnServer({
    settings: [...FORGETTING_SETTINGS, "synchronous_commit=off", "wal_buffers=64MB", "bgwriter_lru_maxpages=0"],
  });
  let walWriter = 0;
  await expectRightsToSurvive({
    url: server.url,
    async point() {
      const client = new pg.Client(server.url);
      await client.connect();
      await client.query("checkpoint");
      const { rows } = await client.query("select pid from pg_stat_activity where backend_type = 'walwriter'");
      walWriter = rows[0].pid;
      process.kill(walWriter, "SIGSTOP");
      await client.end();
    },
    async lose() {
      await server.kill();
      process.kill(walWriter, "SIGKILL");
      await server.start();
    },
  });
});

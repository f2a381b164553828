// A joined process's place at the server: one idle connection, taken up again when it breaks, until it is closed.
import { setTimeout as pause } from "node:timers/promises";
import type { Client } from "pg";
import { endClient } from "../end-client.ts";
import { ensureDatabase, lockPresence } from "./coordination-sql.ts";
import { ensureKeeper, type Keeping } from "./keeper-process.ts";
import { touchPlace } from "./machine.ts";
import { type Reached, type ReachOptions, reachServer } from "./reach-server.ts";

export interface Presence {
  /** As of now: the server keeps its port through a restart unless someone took it meanwhile. */
  readonly reached: Reached;
  close(): Promise<void>;
}

interface PresenceOptions extends Keeping {
  readonly onProgress: (message: string) => void;
}

const KEEPER_LOOK_INTERVAL_MS = 1_000;
const COME_BACK_INTERVAL_MS = 500;

export async function becomePresent(options: PresenceOptions): Promise<Presence> {
  let reached = await reach(options, "join");
  let isClosed = false;
  attend();
  let looking: Promise<void> | undefined;
  const looks = setInterval(() => void lookAfterKeeper(), KEEPER_LOOK_INTERVAL_MS);
  looks.unref();

  function attend(): void {
    const { client, ended } = reached;
    // Being joined is no reason for a process to stay alive.
    socketOf(client).unref();
    void ended.then(comeBack);
  }

  async function comeBack(): Promise<void> {
    while (!isClosed) {
      try {
        reached = await reach(options, "come-back");
        if (isClosed) return await endClient(reached.client);
        return attend();
      } catch {
        // Stopped on purpose, or no way to start it now (a full disk): whoever uses the database sees that themselves.
        await pause(COME_BACK_INTERVAL_MS, undefined, { ref: false });
      }
    }
  }

  /** One at a time: a server that was stopped with a signal answers none of them for a while. */
  function lookAfterKeeper(): Promise<void> {
    looking ??= look().finally(() => {
      looking = undefined;
    });
    return looking;
  }

  async function look(): Promise<void> {
    // A broken connection is `comeBack`'s matter, and a keeper that does not start is tried again at the next look.
    await ensureKeeper(reached, options).catch(() => {});
    await touchPlace(reached.dataFolder);
  }

  return {
    get reached() {
      return reached;
    },
    async close() {
      if (isClosed) return;
      isClosed = true;
      clearInterval(looks);
      // But leaving is: without this, a process with nothing else to do would end in the middle of it.
      socketOf(reached.client).ref();
      // Should the keeper have been killed, nobody would stop the server after us.
      await lookAfterKeeper();
      await endClient(reached.client);
    },
  };
}

async function reach(options: PresenceOptions, purpose: ReachOptions["purpose"]): Promise<Reached> {
  return await reachServer({
    folder: options.folder,
    applicationName: "everbeat presence",
    purpose,
    keeping: options,
    onProgress: options.onProgress,
    settle: async (connection, hasKeeper) => {
      const { client } = connection;
      // From here on the keeper does not stop the server; should it be doing so right now, this fails and we start anew.
      await lockPresence(client);
      await ensureDatabase(client);
      // One was spawned along with a server of our own, and may still be on its way.
      if (!hasKeeper) await ensureKeeper(connection, options);
    },
  });
}

/** The driver has these two, its types do not. */
function socketOf(client: Client): Client & { ref(): void; unref(): void } {
  return client as Client & { ref(): void; unref(): void };
}

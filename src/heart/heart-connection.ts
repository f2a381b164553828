/** The heart's own connection to the database, wherever that is. */
import type pg from "pg";
import { type ConnectionSource, connectDedicated, ownConnections } from "../database/connections.ts";
import { runOn, type Store } from "../database/database.ts";
import { breakOff } from "../database/end-client.ts";
import { isOwnSession } from "../database/own-session.ts";
import { beat, beginHeart, takeSession } from "../sql/hearts.ts";
import type { ReplicaId } from "../task/ids.ts";
import type { HeartConnection } from "./heart-loop.ts";

export interface HeartConnectionParts {
  readonly source: ConnectionSource;
  /** Quoted. */
  readonly schema: string;
  readonly replicaId: ReplicaId;
  /** A vanished client's session is ended by the server after this long: no sooner than it would be declared dead. */
  readonly vanishedAfterMs: number;
}

export async function connectHeart(parts: HeartConnectionParts): Promise<HeartConnection> {
  const client = await connect(parts);
  const store: Store = {
    schema: parts.schema,
    async query<Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
      return runOn<Row>(client, text, values);
    },
  };
  const ended = new Promise<void>((resolve) => {
    client.once("end", resolve);
    client.once("error", () => resolve());
  });
  const hasSession = await isOwnSession(client);
  return {
    hasSession,
    ended,
    store,
    takeSession: () => takeSession(store, parts.replicaId),
    begin: (promise) => beginHeart(store, parts.replicaId, promise),
    beat: (sign) => beat(store, parts.replicaId, sign),
    close() {
      // Not `end()`, which waits for the server to answer: the connection may be closed because it does not.
      breakOff(client);
    },
  };
}

/** With the server's own time limits on this session, or without them where a pooler refuses to pass them on. */
async function connect(parts: HeartConnectionParts): Promise<pg.Client> {
  const seconds = Math.max(1, Math.ceil(parts.vanishedAfterMs / 1_000));
  const limits = {
    tcp_keepalives_idle: seconds,
    tcp_keepalives_interval: Math.max(1, Math.ceil(seconds / 3)),
    tcp_keepalives_count: 3,
    tcp_user_timeout: parts.vanishedAfterMs,
  };
  const options = Object.entries(limits)
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(" ");
  try {
    return await open(parts.source, { options, application_name: "everbeat heart" });
  } catch (error) {
    if (!/startup parameter|unsupported/i.test(String((error as Error)?.message))) throw error;
    return open(parts.source, { application_name: "everbeat heart" });
  }
}

function open(source: ConnectionSource, client: pg.ClientConfig): Promise<pg.Client> {
  if (source.kind === "config") return connectDedicated({ ...source.config, ...client });
  return ownConnections(source.targets, { max: 1, client }).dedicated();
}

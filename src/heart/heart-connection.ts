/** The heart's own connection to the database, wherever that is. */
import { type ConnectionSource, connectDedicated, ownConnections } from "../database/connections.ts";
import { inFrame, runOn, type Store } from "../database/database.ts";
import { breakOff } from "../database/end-client.ts";
import type { DedicatedConnection } from "../database/session.ts";
import type { Change } from "../database/session-settings.ts";
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
  const { client, session } = await connect(parts);
  const store: Store = {
    schema: parts.schema,
    async query<Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
      return inFrame({ client, frame: session.frame }, () => runOn<Row>(client, text, values));
    },
  };
  const ended = new Promise<void>((resolve) => {
    client.once("end", resolve);
    client.once("error", () => resolve());
  });
  return {
    hasSession: session.isDirect,
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

/**
 * With the server's own time limits on this session. They are set once it is there, and not as options of its start: poolers
 * refuse those, each in its own words, and they would take the place of the caller's own options.
 */
function connect({ source, vanishedAfterMs }: HeartConnectionParts): Promise<DedicatedConnection> {
  const seconds = Math.max(1, Math.ceil(vanishedAfterMs / 1_000));
  const changes: Change[] = [
    ["tcp_keepalives_idle", String(seconds)],
    ["tcp_keepalives_interval", String(Math.max(1, Math.ceil(seconds / 3)))],
    ["tcp_keepalives_count", "3"],
    ["tcp_user_timeout", String(vanishedAfterMs)],
  ];
  const client = { application_name: "everbeat heart" };
  if (source.kind === "config") return connectDedicated({ ...source.config, ...client }, changes);
  return ownConnections(source.targets, { max: 1, client, changes }).dedicated();
}

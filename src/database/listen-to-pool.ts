/**
 * Listening for errors of connections in a pool of the caller's. A connection that the server ends, as in a restart, reports an
 * error; the driver ends the whole process for an error that nobody listens for. The caller's own listeners are told all the same.
 */
import type pg from "pg";

type Stop = () => void;

/** One listener for each pool, however often Everbeat is opened on it. */
const listening = new WeakMap<pg.Pool, { users: number; readonly stop: Stop }>();

/** Returns the function that ends it. The listener stays until everybody who called this has called theirs. */
export function listenToPool(pool: pg.Pool): Stop {
  const known = listening.get(pool) ?? { users: 0, stop: listen(pool) };
  known.users++;
  listening.set(pool, known);
  let isStopped = false;
  return () => {
    if (isStopped) return;
    isStopped = true;
    known.users--;
    if (known.users > 0) return;
    listening.delete(pool);
    known.stop();
  };
}

function listen(pool: pg.Pool): Stop {
  const inUse = new Set<pg.ClientBase>();
  // The pool throws the connection away by itself.
  const onError = () => {};
  // Whoever has it is told by the next statement.
  const onAcquire = (client: pg.ClientBase) => {
    if (inUse.has(client)) return;
    inUse.add(client);
    client.on("error", onError);
  };
  const onRelease = (_error: unknown, client: pg.ClientBase) => {
    inUse.delete(client);
    client.off("error", onError);
  };
  pool.on("error", onError).on("acquire", onAcquire).on("release", onRelease);
  return () => {
    pool.off("error", onError).off("acquire", onAcquire).off("release", onRelease);
    for (const client of inUse) client.off("error", onError);
  };
}

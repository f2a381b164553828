/** Closing connections to a server that may not answer any more. */
import type pg from "pg";

const PATIENCE_MS = 1_000;

/** With a goodbye; without, where the other side does not close its end soon: it may stand still, or nothing reach it. */
export async function endClient(client: pg.Client): Promise<void> {
  const timer = setTimeout(() => breakOff(client), PATIENCE_MS);
  await client.end().catch(() => {});
  clearTimeout(timer);
}

/** At once. */
export function breakOff(client: pg.Client): void {
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
}

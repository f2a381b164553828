/**
 * The same connections for what can wait, as most of what runs in the background can: at most half of them are in use by it at a time, and the
 * others are free for whoever called. What waits does so in the order in which it came.
 */
import type { Connections } from "./connections.ts";

export function sparing(connections: Connections): Connections {
  const most = Math.max(1, Math.floor(connections.most / 2));
  const waiting: (() => void)[] = [];
  let inUse = 0;
  const leave = () => {
    const next = waiting.shift();
    if (next) next();
    else inUse--;
  };
  return {
    ...connections,
    most,
    async acquire() {
      if (inUse < most) inUse++;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      try {
        return await connections.acquire();
      } catch (error) {
        leave();
        throw error;
      }
    },
    release(client, isBroken) {
      connections.release(client, isBroken);
      leave();
    },
  };
}

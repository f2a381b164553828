// Clears away the sockets of servers that were killed: PostgreSQL would refuse to start beside one whose process number is in use again.
import { connect } from "node:net";
import { join } from "node:path";
import { handsFor } from "./hands.ts";
import { readPostmasterFile, socketsIn } from "./server-files.ts";
import { HAS_SOCKETS, socketFolder } from "./socket-folder.ts";

/** A server has one, of its port. The folder's owner may have made any number of them, each of which takes two processes to remove. */
const MOST_SOCKETS = 20;

/** In the turn of those who start servers, when no server could be reached. */
export async function removeDeadSockets(dataFolder: string): Promise<void> {
  const sockets = HAS_SOCKETS ? await socketsIn(dataFolder) : [];
  if (sockets.length === 0) return;
  const folder = await socketFolder(dataFolder);
  const hands = await handsFor(dataFolder);
  for (const socket of sockets.slice(0, MOST_SOCKETS)) {
    if (!(await isDead(join(folder, socket)))) continue;
    await hands.remove(join(dataFolder, socket));
    await hands.remove(join(dataFolder, `${socket}.lock`));
  }
}

/** Also true of a server that has no socket, as far as its postmaster.pid says that there is one. */
export async function isAnyoneListening(dataFolder: string): Promise<boolean> {
  if ((await socketsIn(dataFolder)).length === 0) return (await readPostmasterFile(dataFolder)) !== undefined;
  return await isSocketAlive(dataFolder);
}

/** Also of a server that was stopped with a signal, and answers nobody. */
export async function isSocketAlive(dataFolder: string): Promise<boolean> {
  const sockets = HAS_SOCKETS ? await socketsIn(dataFolder) : [];
  if (sockets.length === 0) return false;
  const folder = await socketFolder(dataFolder);
  for (const socket of sockets) if (!(await isDead(join(folder, socket)))) return true;
  return false;
}

/** One that nobody listens on refuses; a server that is busy does not. */
function isDead(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("error", ({ code }: NodeJS.ErrnoException) => resolve(code === "ECONNREFUSED"));
    socket.once("connect", () => socket.destroy() && resolve(false));
  });
}

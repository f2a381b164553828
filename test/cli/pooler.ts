/** Stands between a client and the server as a pooler does: the backend's key that clients are told is its own. */
import { connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

const BACKEND_KEY = "K".charCodeAt(0);

/** The address of the server as seen through it. */
export async function throughPooler(databaseUrl: string): Promise<string> {
  const behind = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  const proxy = createServer((client) => {
    const server = connect(Number(behind.port), behind.hostname);
    for (const socket of [client, server]) sockets.add(socket.on("error", () => {}));
    client.pipe(server);
    server
      .on(
        "data",
        withOtherKey((bytes) => client.write(bytes)),
      )
      .on("end", () => client.end());
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    proxy.close();
  });
  const address = new URL(databaseUrl);
  address.port = String((proxy.address() as { port: number }).port);
  return address.href;
}

/** Messages of the server are a letter, a length and a body; they arrive in any pieces. */
function withOtherKey(pass: (bytes: Buffer) => void): (chunk: Buffer) => void {
  let rest = Buffer.alloc(0);
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 5) {
      const end = 1 + rest.readInt32BE(1);
      if (rest.length < end) return;
      const message = Buffer.from(rest.subarray(0, end));
      if (message[0] === BACKEND_KEY) message.writeInt32BE(message.readInt32BE(5) + 1, 5);
      pass(message);
      rest = rest.subarray(end);
    }
  };
}

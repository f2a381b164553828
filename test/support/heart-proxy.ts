/** A way to the database on which packets can be swallowed, in one direction or both: nobody is told, nothing is closed. */
import { connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

export type CutDirection = "both" | "to server" | "to worker";

export interface HeartProxy {
  /** The same database, by way of the proxy. */
  readonly url: string;
  cut(direction: CutDirection): void;
  /** What was swallowed is lost; what comes from now on gets through. */
  heal(): void;
}

export async function startHeartProxy(url: string): Promise<HeartProxy> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  const swallowed = { "to server": false, "to worker": false };
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    const carry = (from: Socket, to: Socket, direction: keyof typeof swallowed) => {
      sockets.add(from);
      from.on("data", (chunk) => swallowed[direction] || to.write(chunk));
      from.on("error", () => {});
      // The end of a connection is a packet too.
      from.on("close", () => swallowed[direction] || to.destroy());
    };
    carry(client, upstream, "to server");
    carry(upstream, client, "to worker");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = new URL(url);
  address.hostname = "127.0.0.1";
  address.port = String((server.address() as { port: number }).port);
  return {
    url: address.href,
    cut(direction) {
      if (direction !== "to worker") swallowed["to server"] = true;
      if (direction !== "to server") swallowed["to worker"] = true;
    },
    heal() {
      swallowed["to server"] = false;
      swallowed["to worker"] = false;
    },
  };
}

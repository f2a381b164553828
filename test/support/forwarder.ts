/** One address behind which the server can be changed, as failover does it with an address that moves. */
import { connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

export interface Forwarder {
  readonly port: number;
  /** Every connection ends; the next ones go there. */
  leadTo(port: number): void;
}

export async function startForwarder(firstPort: number): Promise<Forwarder> {
  let target = firstPort;
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(target, "127.0.0.1");
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.setNoDelay();
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const endAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  onTestFinished(() => {
    endAll();
    server.close();
  });
  return {
    port: (server.address() as { port: number }).port,
    leadTo(port) {
      target = port;
      endAll();
    },
  };
}

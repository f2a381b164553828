/** What all proxies before PostgreSQL have in common: one listens, knows its sockets, and ends them with the test. */
import { connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

export interface ProxyServer {
  /** The same database, by way of the proxy. */
  readonly url: string;
  /** The test's end does it too. */
  close(): void;
}

export async function startProxyServer(
  url: string,
  onClient: (client: Socket, connectToServer: () => Socket) => void,
): Promise<ProxyServer> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    return socket;
  };
  const server = createServer((client) => {
    onClient(keep(client), () => keep(connect(Number(target.port), target.hostname)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  onTestFinished(close);
  const address = new URL(url);
  address.hostname = "127.0.0.1";
  address.port = String((server.address() as { port: number }).port);
  return { url: address.href, close };
}

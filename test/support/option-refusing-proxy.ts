/**
 * A pooler as some providers have: it refuses a start of a connection that brings options, with a code and in words of its own,
 * and passes on everything else.
 */
import { connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

export interface RefusingProxy {
  readonly url: string;
  refused(): number;
}

export async function startOptionRefusingProxy(url: string): Promise<RefusingProxy> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  let refused = 0;
  const server = createServer((client) => {
    const keep = (socket: Socket) => {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => sockets.delete(socket));
    };
    keep(client);
    client.once("data", (startup: Buffer) => {
      if (startup.toString("utf8").split("\0").includes("options")) {
        refused++;
        client.end(refusal("XX999", "this plan has no command-line arguments"));
        return;
      }
      const upstream = connect(Number(target.port), target.hostname);
      keep(upstream);
      upstream.write(startup);
      client.pipe(upstream);
      upstream.pipe(client);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = new URL(url);
  address.hostname = "127.0.0.1";
  address.port = String((server.address() as { port: number }).port);
  return { url: address.href, refused: () => refused };
}

/** An ErrorResponse: fields with a letter each, and a length before them that counts itself. */
function refusal(code: string, message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${message}\0\0`);
  const head = Buffer.from("E\0\0\0\0");
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}

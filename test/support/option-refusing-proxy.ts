/**
 * A pooler as some providers have: it refuses a start of a connection that brings options, with a code and in words of its own,
 * and passes on everything else.
 */
import { startProxyServer } from "./proxy-server.ts";

export interface RefusingProxy {
  readonly url: string;
  refused(): number;
}

export async function startOptionRefusingProxy(url: string): Promise<RefusingProxy> {
  let refused = 0;
  const proxy = await startProxyServer(url, (client, connectToServer) => {
    client.once("data", (startup: Buffer) => {
      if (startup.toString("utf8").split("\0").includes("options")) {
        refused++;
        client.end(refusal("XX999", "this plan has no command-line arguments"));
        return;
      }
      const upstream = connectToServer();
      upstream.write(startup);
      client.pipe(upstream);
      upstream.pipe(client);
    });
  });
  return { url: proxy.url, refused: () => refused };
}

/** An ErrorResponse: fields with a letter each, and a length before them that counts itself. */
function refusal(code: string, message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${message}\0\0`);
  const head = Buffer.from("E\0\0\0\0");
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}

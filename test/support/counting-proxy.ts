/**
 * A proxy before PostgreSQL that counts what passes: statements, and how often somebody waits for a reply. It understands
 * just enough of the protocol for that, so it counts the same whatever driver is on the other side.
 */
import type { Socket } from "node:net";
import { startProxyServer } from "./proxy-server.ts";

export interface Traffic {
  statements: number;
  /** Something was sent while nothing was under way on that connection: a reply was waited for. */
  roundTrips: number;
}

export interface CountingProxy {
  readonly url: string;
  /** What passed so far on connections whose startup packet names this application. */
  traffic(application: string): Traffic;
}

export async function startCountingProxy(url: string): Promise<CountingProxy> {
  const counts = new Map<string, Traffic>();
  const traffic = (application: string) => {
    const found = counts.get(application) ?? { statements: 0, roundTrips: 0 };
    counts.set(application, found);
    return found;
  };
  const proxy = await startProxyServer(url, (client, connectToServer) => {
    const upstream = connectToServer();
    count(client, upstream, traffic);
    client.pipe(upstream);
    upstream.pipe(client);
  });
  return { url: proxy.url, traffic: (application) => ({ ...traffic(application) }) };
}

function count(client: Socket, upstream: Socket, traffic: (application: string) => Traffic): void {
  let of: Traffic | undefined;
  let underWay = 0;
  const asked = messages({
    onStartup(body) {
      const words = body.toString("utf8").split("\0");
      of = traffic(words[words.indexOf("application_name") + 1] ?? "");
    },
    onMessage(type) {
      if (!of) return;
      // Execute and a simple query are statements; a Sync and a simple query ask for a reply.
      if (type === "E" || type === "Q") of.statements++;
      if (type !== "S" && type !== "Q") return;
      if (underWay++ === 0) of.roundTrips++;
    },
  });
  const answered = messages({
    onMessage(type) {
      if (type === "Z" && underWay > 0) underWay--;
    },
  });
  client.on("data", asked);
  upstream.on("data", answered);
}

/** Cuts a stream into messages: a type, a length that counts itself, a body; a startup packet has no type. */
function messages(on: { onStartup?: (body: Buffer) => void; onMessage: (type: string) => void }) {
  let rest: Buffer = Buffer.alloc(0);
  let isStarting = on.onStartup !== undefined;
  return (chunk: Buffer) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (;;) {
      const head = isStarting ? 0 : 1;
      if (rest.length < head + 4) return;
      const length = head + rest.readInt32BE(head);
      if (rest.length < length) return;
      if (isStarting) on.onStartup?.(rest.subarray(4, length));
      else on.onMessage(String.fromCharCode(rest[0] ?? 0));
      isStarting = false;
      rest = rest.subarray(length);
    }
  };
}

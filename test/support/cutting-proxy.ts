/**
 * A proxy before PostgreSQL that breaks a connection, or lets it hang, exactly between what the server has done and the
 * reply to it, or swallows every packet in one direction or both, as a broken network does: nobody is told, nothing is closed.
 * It understands just enough of the protocol for that: where messages begin, the text of a statement, and the end of a reply.
 */
import type { Socket } from "node:net";
import { startProxyServer } from "./proxy-server.ts";

export type CutDirection = "both" | "to server" | "to worker";

export interface CuttingProxy {
  /** The same database, by way of the proxy. */
  readonly url: string;
  /** The next statement whose text holds this is carried out, and its connection breaks before the reply. Resolves when that has happened. */
  cutReplyTo(text: string): Promise<void>;
  /** The next statement whose text holds this reaches the server, and its connection breaks at once; the server does not notice before it is done. */
  cutWhileServed(text: string): Promise<void>;
  /** The connection of the next statement whose text holds this breaks before the statement reaches the server. */
  cutBefore(text: string): Promise<void>;
  /** The next statement whose text holds this does not reach the server: it and all that follows on its connection is swallowed. */
  holdBefore(text: string): Promise<HeldStatement>;
  /** The next statement whose text holds this is carried out, and its reply and all that follows on its connection is swallowed. */
  holdReplyTo(text: string): Promise<Held>;
  /** Whether everything that hearts send and get is swallowed. */
  swallowHearts(isOn: boolean): void;
  /** The next so many connections are ended in the moment in which they are ready, as pg_terminate_backend can do it. */
  endWhenReady(connections: number): void;
  /** How many of those are still to come. */
  readonly toBeEnded: number;
  /** From now on nothing gets through in this direction. */
  cut(direction: CutDirection): void;
  /** From now on everything gets through again; what was swallowed stays so. */
  mend(): void;
  /** How many statements whose text holds this have come by. */
  asked(text: string): number;
  /** Before the test ends, which does it too: what was cut off is still connected to the server until then. */
  close(): void;
}

type Swallowed = Record<Exclude<CutDirection, "both"> | "hearts", boolean>;

/** What is held can be let go after all. */
export interface Held {
  deliver(): void;
}

export interface HeldStatement extends Held {
  /** It reaches the server after all, and its connection breaks at once; the server does not notice before it is done. */
  cutWhileServed(): void;
}

interface Cut {
  readonly text: string;
  readonly when: "asked" | "served" | "replied" | "held before" | "held reply";
  readonly done: (held: HeldStatement) => void;
}

export async function startCuttingProxy(url: string): Promise<CuttingProxy> {
  const cuts: Cut[] = [];
  const swallowed: Swallowed = { "to server": false, "to worker": false, hearts: false };
  const asked = new Map<string, number>();
  let toBeEnded = 0;
  const proxy = await startProxyServer(url, (client, connectToServer) => {
    const upstream = connectToServer();
    if (toBeEnded > 0) {
      toBeEnded--;
      endAsSoonAsReady(client, upstream);
    } else carry({ client, upstream, cuts, swallowed, asked });
  });
  const cutAt = (text: string, when: Cut["when"]) =>
    new Promise<HeldStatement>((resolve) => cuts.push({ text, when, done: resolve }));
  return {
    url: proxy.url,
    cutReplyTo: (text) => cutAt(text, "replied").then(() => {}),
    cutWhileServed: (text) => cutAt(text, "served").then(() => {}),
    cutBefore: (text) => cutAt(text, "asked").then(() => {}),
    holdBefore: (text) => cutAt(text, "held before"),
    holdReplyTo: (text) => cutAt(text, "held reply"),
    swallowHearts(isOn) {
      swallowed.hearts = isOn;
    },
    endWhenReady(connections) {
      toBeEnded = connections;
    },
    get toBeEnded() {
      return toBeEnded;
    },
    cut(direction) {
      if (direction !== "to worker") swallowed["to server"] = true;
      if (direction !== "to server") swallowed["to worker"] = true;
    },
    mend() {
      swallowed["to server"] = false;
      swallowed["to worker"] = false;
    },
    asked(text) {
      const counts = [...asked].filter(([statement]) => statement.includes(text)).map(([, count]) => count);
      return counts.reduce((sum, count) => sum + count, 0);
    },
    close: proxy.close,
  };
}

/** Being ready and being ended arrive together, in one piece. */
function endAsSoonAsReady(client: Socket, upstream: Socket): void {
  client.pipe(upstream);
  let replied: Buffer = Buffer.alloc(0);
  upstream.on("data", (chunk) => {
    let isReady = false;
    replied = eachMessage(Buffer.concat([replied, chunk]), (type) => {
      isReady ||= type === "Z";
    });
    if (!isReady) return void client.write(chunk);
    client.end(Buffer.concat([chunk, TERMINATED]));
    upstream.destroy();
  });
  client.on("close", () => upstream.destroy());
}

const TERMINATED = (() => {
  const fields = Buffer.from("SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0");
  const head = Buffer.alloc(5);
  head.write("E");
  head.writeInt32BE(4 + fields.length, 1);
  return Buffer.concat([head, fields]);
})();

interface Between {
  readonly client: Socket;
  readonly upstream: Socket;
  readonly cuts: Cut[];
  readonly swallowed: Swallowed;
  readonly asked: Map<string, number>;
}

const NOTHING: HeldStatement = { deliver() {}, cutWhileServed() {} };

function carry({ client, upstream, cuts, swallowed, asked: counts }: Between): void {
  const prepared = new Map<string, string>();
  const count = (statement: string) => counts.set(statement, (counts.get(statement) ?? 0) + 1);
  let cutting: Cut | undefined;
  let isAsked = false;
  let isStartupOver = false;
  let isHeart = false;
  let asked: Buffer = Buffer.alloc(0);
  let replied: Buffer = Buffer.alloc(0);
  let held: Buffer[] = [];
  const isSwallowed = (direction: Exclude<CutDirection, "both">) =>
    swallowed[direction] || (isHeart && swallowed.hearts);
  const isHolding = () => cutting?.when === "held before" || cutting?.when === "held reply";
  const letGo = (to: Socket): HeldStatement => ({
    deliver() {
      cutting = undefined;
      for (const chunk of held.splice(0)) to.write(chunk);
    },
    cutWhileServed() {
      if (cutting) cutting = { ...cutting, when: "served" };
      for (const chunk of held.splice(0)) upstream.write(chunk);
      client.destroy();
    },
  });

  client.on("data", (chunk) => {
    if (!isStartupOver) isHeart ||= chunk.includes("everbeat heart");
    if (isSwallowed("to server")) return;
    if (isHolding()) return void held.push(chunk);
    asked = Buffer.concat([asked, chunk]);
    // The first message has no type.
    if (!isStartupOver) {
      if (asked.length < 4 || asked.length < asked.readInt32BE(0)) return void upstream.write(chunk);
      asked = asked.subarray(asked.readInt32BE(0));
      isStartupOver = true;
    }
    asked = eachMessage(asked, (type, body) => {
      const [first = "", second = ""] =
        type === "P" || type === "B" || type === "Q" ? body.toString().split("\0", 2) : [];
      if (type === "P") prepared.set(first, second);
      // A statement that was prepared earlier is only named.
      const statement = type === "B" ? prepared.get(second) : type === "Q" ? first : undefined;
      if (statement !== undefined) count(statement);
      // Sync: the whole of the request is on its way.
      if (cutting && type === "S") isAsked = true;
      if (cutting || statement === undefined) return;
      const found = cuts.findIndex(({ text }) => statement.includes(text));
      if (found >= 0) [cutting] = cuts.splice(found, 1);
    });
    if (cutting?.when === "held before") {
      held = [chunk];
      return cutting.done(letGo(upstream));
    }
    if (cutting?.when !== "asked") upstream.write(chunk);
    if (cutting?.when !== "asked" && !(cutting?.when === "served" && isAsked)) return;
    client.destroy();
    cutting.done(NOTHING);
  });
  upstream.on("data", (chunk) => {
    if (isSwallowed("to worker")) return;
    if (!cutting) return void client.write(chunk);
    if (cutting.when === "held reply") held.push(chunk);
    replied = eachMessage(Buffer.concat([replied, chunk]), (type) => {
      // ReadyForQuery: the statement is done, and so is its transaction.
      if (type !== "Z") return;
      if (cutting?.when === "held reply") cutting.done(letGo(client));
      if (cutting?.when !== "replied") return;
      client.destroy();
      upstream.destroy();
      cutting.done(NOTHING);
    });
  });
  // The end of a connection is a packet too.
  client.on("close", () => {
    // While a statement of a broken connection is being served, the server must not learn that its client has gone.
    if (!swallowed["to server"] && cutting?.when !== "served") upstream.destroy();
  });
  upstream.on("close", () => swallowed["to worker"] || client.destroy());
}

/** Calls back for each whole message and returns what is left over. */
function eachMessage(buffer: Buffer, onMessage: (type: string, body: Buffer) => void): Buffer {
  let rest = buffer;
  while (rest.length >= 5) {
    const length = 1 + rest.readInt32BE(1);
    if (rest.length < length) break;
    onMessage(String.fromCharCode(rest[0] as number), rest.subarray(5, length));
    rest = rest.subarray(length);
  }
  return rest;
}

/** Strangers on a server's address, who are asked for SCRAM and offer something else. */
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import pg from "pg";
import { expect, inject, onTestFinished, test } from "vitest";
import { callersConnections, ownConnections } from "../../src/database/connections.ts";
import { parseTargets } from "../../src/database/targets.ts";

const PASSWORD = "a-secret-that-nobody-else-knows";

test.for([
  ["asks for the password in clear text", authentication(3)],
  ["asks for the password as an MD5 hash", authentication(5, Buffer.from("salt"))],
  ["asks for nothing", Buffer.concat([authentication(0), ready()])],
  ["is ready without a word about who it is", ready()],
] as const)("a server that %s is told nothing", async ([, greeting]) => {
  const stranger = await listen(greeting);
  const url = `postgres://ada:${PASSWORD}@127.0.0.1:${stranger.port}/shop?require_auth=scram-sha-256`;
  const connections = ownConnections({ urls: [url], role: "any" }, { max: 1 });
  onTestFinished(() => connections.close());
  await expect(connections.dedicated()).rejects.toThrow(/SCRAM/);
  expect(stranger.heard()).toMatch(/ada/);
  expect(stranger.answers()).toEqual([]);
});

test("a server that offers SCRAM and cannot prove that it knows the password is left", async () => {
  const offer = authentication(10, Buffer.from("SCRAM-SHA-256\0\0"));
  const stranger = await listen(offer, (message) => {
    const nonce = /r=([^,\0]+)/.exec(message)?.[1];
    if (message.startsWith("p") && message.includes("n=*"))
      return authentication(11, Buffer.from(`r=${nonce}more,s=c2FsdA==,i=4096`));
    return Buffer.concat([
      authentication(12, Buffer.from(`v=${Buffer.alloc(32).toString("base64")}`)),
      authentication(0),
      ready(),
    ]);
  });
  const url = `postgres://ada:${PASSWORD}@127.0.0.1:${stranger.port}/shop?require_auth=scram-sha-256`;
  const connections = ownConnections({ urls: [url], role: "any" }, { max: 1 });
  onTestFinished(() => connections.close());
  await expect(connections.dedicated()).rejects.toThrow(/signature does not match/);
  expect(stranger.heard()).not.toContain(PASSWORD);
  // The two messages of SCRAM, and no statement.
  expect(stranger.answers()).toEqual(["p", "p"]);
});

test("a server that proves itself is talked to", async () => {
  const url = new URL(inject("serverUrl"));
  url.searchParams.set("require_auth", "scram-sha-256");
  const connections = ownConnections({ urls: [url.href], role: "any" }, { max: 1 });
  onTestFinished(() => connections.close());
  const { client } = await connections.dedicated();
  expect((await client.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
  await client.end();
});

test.for([
  ["require_auth=SCRAM-SHA-256", "SCRAM-SHA-256"],
  ["require_auth=md5", "md5"],
  ["require_auth=scram-sha-256,md5", "scram-sha-256,md5"],
  ["require_auth=%21password", "!password"],
  ["require_auth=", ""],
  ["require_auth=scram-sha-256&application_name=shop&require_auth=none", "none"],
])("an address with %s is refused, and says what is supported", ([parameters, value]) => {
  const url = `postgres://ada:${PASSWORD}@127.0.0.1:1/shop?${parameters}`;
  const words = `require_auth: must be scram-sha-256, the only method that can be required here, not ${JSON.stringify(value)}`;
  expect(() => parseTargets(url)).toThrow(words);
  expect(() => parseTargets(url)).not.toThrow(PASSWORD);
  const pool = new pg.Pool({ connectionString: url });
  expect(() => callersConnections(pool)).toThrow(words);
});

test("a server is asked for SCRAM also where the address has the word in URL encoding", async () => {
  const stranger = await listen(authentication(3));
  const url = `postgres://ada:${PASSWORD}@127.0.0.1:${stranger.port}/shop?require_auth=scram%2Dsha-256#first`;
  const connections = ownConnections(parseTargets(url), { max: 1 });
  onTestFinished(() => connections.close());
  await expect(connections.dedicated()).rejects.toThrow(/SCRAM/);
  expect(stranger.answers()).toEqual([]);
});

test("without that word, the driver does as it always did", async () => {
  const stranger = await listen(authentication(3));
  const client = new pg.Client(`postgres://ada:${PASSWORD}@127.0.0.1:${stranger.port}/shop`);
  client.on("error", () => {});
  void client.connect().catch(() => {});
  await expect.poll(() => stranger.heard()).toContain(PASSWORD);
  void client.end();
});

function authentication(code: number, more = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.write("R");
  head.writeInt32BE(8 + more.length, 1);
  head.writeInt32BE(code, 5);
  return Buffer.concat([head, more]);
}

function ready(): Buffer {
  return Buffer.from([0x5a, 0, 0, 0, 5, 0x49]);
}

/** Greets whoever connects, and keeps what it hears. */
async function listen(greeting: Buffer, answer?: (message: string) => Buffer) {
  let heard = "";
  const answers: string[] = [];
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => {});
    socket.once("data", (startup) => {
      heard += startup.toString("latin1");
      socket.on("data", (data) => {
        const message = data.toString("latin1");
        heard += message;
        answers.push(message.slice(0, 1));
        if (answer) socket.write(answer(message));
      });
      socket.write(greeting);
    });
  }).listen(0, "127.0.0.1");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  return { port, heard: () => heard, answers: () => answers };
}

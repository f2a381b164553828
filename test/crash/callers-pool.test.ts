/** Processes that give Everbeat a pool of their own, as the documentation shows it, live through a restart of the server. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { eventually } from "../support/eventually.ts";
import { startOwnServer } from "../support/own-server.ts";

const FIXTURE = fileURLToPath(new URL("../support/pool-process.js", import.meta.url));
const IN_A_TRANSACTION = ["pg", "drizzle", "kysely"] as const;
type Part = "worker" | "enqueuer" | (typeof IN_A_TRANSACTION)[number];

interface Message {
  readonly said: string;
  readonly id?: string;
}

function start(part: Part, url: string) {
  const child = fork(FIXTURE, [part, url], { stdio: ["ignore", "ignore", "pipe", "ipc"] });
  const exited = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await exited;
  });
  const messages: Message[] = [];
  let complaints = "";
  child.on("message", (message: Message) => messages.push(message));
  child.stderr?.on("data", (text: Buffer) => {
    complaints += text;
  });
  return {
    part,
    async heard(said: string) {
      const find = () => messages.find((message) => message.said === said) ?? child.exitCode !== null;
      const found = await eventually(find, { within: 30_000, what: `"${said}" from ${part}` });
      if (typeof found === "object") return found;
      throw new Error(`${part} exited with ${child.exitCode}: ${complaints}`);
    },
    send: (message: "go on" | "enqueue") => void child.send(message),
    /** How it ended, if it did, and what it complained of. */
    fate: () => ({ part, exitCode: child.exitCode, complaints }),
  };
}

test("a worker, a process that only enqueues, and transactions of each library live through it", async () => {
  const server = await startOwnServer();
  const everbeat = await Everbeat.open({ database: server.url, log: "silent" });
  onTestFinished(() => everbeat.close({ now: true }));
  const worker = start("worker", server.url);
  const enqueuer = start("enqueuer", server.url);
  const holders = IN_A_TRANSACTION.map((part) => start(part, server.url));
  const all = [worker, enqueuer, ...holders];
  await Promise.all([worker.heard("ready"), enqueuer.heard("ready")]);
  await Promise.all(holders.map((holder) => holder.heard("in the middle")));

  await server.stop("fast");
  await server.start();

  for (const holder of holders) holder.send("go on");
  await Promise.all(holders.map((holder) => holder.heard("refused")));
  for (const process of all) {
    process.send("enqueue");
    const { id = "" } = await process.heard("enqueued");
    expect(await everbeat.result(id, { timeout: 20_000 })).toBe(2);
  }
  expect(all.map(({ fate }) => fate())).toEqual(all.map(({ part }) => ({ part, exitCode: null, complaints: "" })));
}, 90_000);

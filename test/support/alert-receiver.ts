/** A real HTTP server as the target of a channel, and processes that have a channel to it. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { AlertChannel } from "../../src/config/alert-channels.ts";
import { eventually } from "./eventually.ts";

export interface Received {
  readonly id: string;
  readonly change: string;
  readonly subject: string;
  readonly tries: number;
  /** The process that sent it. */
  readonly from: string;
}

export interface AlertReceiver {
  readonly url: string;
  readonly received: Received[];
  /** What the server answers from now on; "nothing": it takes what is sent and keeps silent. */
  answer: number | "nothing" | ((received: Received) => number | "nothing");
  /** "raised a", "resolved a": what came, in order. */
  changes(): string[];
}

export async function startAlertReceiver(): Promise<AlertReceiver> {
  const received: Received[] = [];
  const receiver = { url: "", received, answer: 204, changes } as AlertReceiver & { url: string };
  function changes(): string[] {
    return received.map(({ change, subject }) => `${change} ${subject}`);
  }
  const server = createServer(async (request, response: ServerResponse) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const one = JSON.parse(body) as Received;
    received.push(one);
    const { answer } = receiver;
    const status = typeof answer === "function" ? answer(one) : answer;
    if (status !== "nothing") response.writeHead(status).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return receiver;
}

/** As a user would write it. */
export function webhook(url: string, { name = "webhook", from = "here" } = {}): AlertChannel {
  return {
    name,
    async deliver({ id, change, alert, tries }, { signal }) {
      const body = JSON.stringify({ id, change, subject: alert.subject, tries, from });
      const { ok, status } = await fetch(url, { method: "POST", body, signal });
      if (!ok) throw new Error(`the receiver answered ${status}`);
    },
  };
}

const PROCESS = fileURLToPath(new URL("alert-channel-process.js", import.meta.url));

export interface ChannelProcess {
  readonly child: ChildProcess;
  kill(): Promise<void>;
  /** Raises an alert about this subject, and is killed in the moment in which that was committed. */
  raiseAndDie(subject: string): Promise<void>;
}

/** `target`: undefined where it has no channel. */
export async function startChannelProcess(parts: {
  url: string;
  target: string | undefined;
  name: string;
}): Promise<ChannelProcess> {
  const child = fork(PROCESS, [JSON.stringify(parts)]);
  const exited = once(child, "exit");
  const end = async () => {
    child.kill("SIGKILL");
    await exited;
  };
  onTestFinished(end);
  let isReady = false;
  child.on("message", () => {
    isReady = true;
  });
  await eventually(() => isReady, { within: 30_000, what: "the process to be ready" });
  return {
    child,
    kill: end,
    async raiseAndDie(subject) {
      child.send({ subject });
      await exited;
    },
  };
}

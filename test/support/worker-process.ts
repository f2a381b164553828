/** Worker processes of a test: real ones, that can be stopped and killed, and that are gone when the test is over. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { OpenOptions } from "../../src/config/open-options.ts";
import type { EventName } from "../../src/events.ts";
import type { TaskOptions } from "../../src/task/define-task.ts";
import type { WorkOptions } from "../../src/worker/options.ts";
import { eventually } from "./eventually.ts";

const FIXTURE = fileURLToPath(new URL("crash-worker.js", import.meta.url));

/** Handlers that crash-worker.js knows; a task is named like its handler unless the options say otherwise. */
export type Handler = "note" | "nothing" | "completeIn" | "hold" | "obey" | "span" | "throwInTimer" | "rejectUnawaited";

export interface WorkerProcessOptions {
  readonly url: string;
  readonly open?: OpenOptions;
  /** Left out: it opens the database and does no work. */
  readonly work?: WorkOptions;
  readonly tasks?: readonly ({ handler: Handler } & Partial<TaskOptions>)[];
  /** Settings of the sessions in which handlers leave their traces. */
  readonly effectOptions?: string;
  /** The events that it reports. */
  readonly forward?: readonly EventName[];
}

export interface Message {
  readonly ready?: boolean;
  readonly replicaId?: string;
  readonly event?: EventName;
  readonly handler?: "holding" | "aborted" | "committed" | "refused";
  readonly taskId?: string;
  readonly claimId?: string;
  readonly code?: string;
  readonly [other: string]: unknown;
}

export interface WorkerProcess {
  readonly pid: number;
  readonly replicaId: string;
  readonly messages: readonly Message[];
  /** The first message that fits, now or later. */
  heard(fits: Partial<Message>, within?: number): Promise<Message>;
  release(): void;
  /** Closes its client; the process should end by itself. */
  close(): void;
  /** Makes the application around the worker throw, or reject without anyone awaiting it. */
  blunder(kind: "throw" | "reject"): void;
  /** What it wrote to its standard error. */
  complaints(): string;
  signal(signal: NodeJS.Signals): void;
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

export async function startWorker(options: WorkerProcessOptions): Promise<WorkerProcess> {
  const child = fork(FIXTURE, [JSON.stringify(options)], {
    stdio: ["ignore", "ignore", "pipe", "ipc"],
    env: { ...process.env, NODE_OPTIONS: "" },
  });
  const exited = once(child, "exit").then(([code, signal]) => ({ code, signal }));
  // Continued first: a stopped process is killed all the same, but only a running one closes its connections at once.
  onTestFinished(() => endOf(child, exited));
  const messages: Message[] = [];
  let complaints = "";
  child.on("message", (message: Message) => messages.push(message));
  child.stderr?.on("data", (text: Buffer) => {
    complaints += text;
  });
  const heard = (fits: Partial<Message>, within = 15_000) =>
    eventually(() => messages.find((message) => matches(message, fits)), {
      within,
      what: `a message with ${JSON.stringify(fits)} from process ${child.pid} (${complaints})`,
    }) as Promise<Message>;
  const ready = await heard({ ready: true }, 20_000);
  return {
    pid: child.pid as number,
    replicaId: ready.replicaId ?? "",
    messages,
    heard,
    release: () => void child.send({ release: true }),
    close: () => void child.send({ close: true }),
    blunder: (kind) => void child.send({ blunder: kind }),
    complaints: () => complaints,
    signal: (signal) => void child.kill(signal),
    kill: () => endOf(child, exited),
    exited,
  };
}

function matches(message: Message, fits: Partial<Message>): boolean {
  return Object.entries(fits).every(([key, value]) => message[key] === value);
}

async function endOf(child: ChildProcess, exited: Promise<unknown>): Promise<void> {
  child.kill("SIGKILL");
  await exited;
}

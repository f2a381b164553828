/** Replicas with runners: real processes that can be stopped and killed, and are gone when the test is over. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { OpenOptions } from "../../src/config/open-options.ts";
import type { EventName } from "../../src/events.ts";
import { defineTask, type TaskOptions } from "../../src/task/define-task.ts";
import type { WorkOptions } from "../../src/worker/options.ts";
import { eventually } from "./eventually.ts";

const FIXTURE = fileURLToPath(new URL("runner-worker.js", import.meta.url));

/** A task of runner-tasks.js, named like its handler. */
export type RunnerTask = { readonly handler: string; readonly batchSize?: number } & Partial<TaskOptions>;

/** The same task for callers: only its name matters there. */
export const task = (name: string) => defineTask({ name, run: async (_input: object): Promise<unknown> => undefined });

export interface RunnerMessage {
  readonly event?: EventName;
  /** What a handler said through its log. */
  readonly said?: string;
  readonly taskId?: string;
  readonly pid?: number;
  readonly [other: string]: unknown;
}

export interface RunnerWorker {
  readonly pid: number;
  readonly replicaId: string;
  readonly messages: readonly RunnerMessage[];
  /** The first message that fits, now or later. */
  heard(fits: Partial<RunnerMessage>, within?: number): Promise<RunnerMessage>;
  /** Closes its client and exits. */
  close(): void;
  /** Blocks its loop. */
  block(ms: number): void;
  signal(signal: NodeJS.Signals): void;
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

const FORWARDED: readonly EventName[] = [
  ...(["runner.started", "runner.ended", "runners.suspended", "runners.resumed", "handler.abandoned"] as const),
  ...(["handler.failed-after-end"] as const),
  ...(["task.started", "task.ended", "claim.lost", "replica.fenced", "replica.rejoined", "beat.refused"] as const),
  ...(["database.lost", "heart.lost", "heart.beating", "loop.blocked"] as const),
];

export async function startRunnerWorker(options: {
  url: string;
  tasks: readonly RunnerTask[];
  open?: OpenOptions;
  work?: WorkOptions;
  module?: string;
  /** Runners have them too. */
  nodeArguments?: readonly string[];
}): Promise<RunnerWorker> {
  const { nodeArguments = [], ...config } = options;
  const child = fork(FIXTURE, [JSON.stringify({ ...config, forward: FORWARDED })], {
    stdio: ["ignore", "ignore", "pipe", "ipc"],
    execArgv: [...nodeArguments],
    env: { ...process.env, NODE_OPTIONS: "" },
  });
  const exited = once(child, "exit").then(([code, signal]) => ({ code, signal }));
  const kill = async () => {
    child.kill("SIGKILL");
    await exited;
  };
  onTestFinished(kill);
  const messages: RunnerMessage[] = [];
  let complaints = "";
  child.on("message", (message: RunnerMessage) => messages.push(message));
  child.stderr?.on("data", (text: Buffer) => {
    complaints = (complaints + text).slice(-2_000);
  });
  const heard = (fits: Partial<RunnerMessage>, within = 45_000) =>
    eventually(() => messages.find((message) => Object.entries(fits).every(([key, value]) => message[key] === value)), {
      within,
      what: `a message with ${JSON.stringify(fits)} (it said ${JSON.stringify(messages.slice(-8))} ${complaints})`,
    }) as Promise<RunnerMessage>;
  const ready = await heard({ ready: true });
  return {
    pid: child.pid as number,
    replicaId: ready["replicaId"] as string,
    messages,
    heard,
    close: () => void child.send({ close: true }),
    block: (ms) => void child.send({ block: ms }),
    signal: (signal) => void child.kill(signal),
    kill,
    exited,
  };
}

/** Worker processes whose hearts are tried: real ones, that can be stopped and killed, and are gone when the test is over. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { OpenOptions } from "../../src/config/open-options.ts";
import type { RecoveryOptions } from "../../src/config/recovery-options.ts";
import type { EventName } from "../../src/events.ts";
import type { TaskOptions } from "../../src/task/define-task.ts";
import { defineTask } from "../../src/task/define-task.ts";
import type { WorkOptions } from "../../src/worker/options.ts";
import { eventually } from "./eventually.ts";

const FIXTURE = fileURLToPath(new URL("heart-worker.js", import.meta.url));

export type HeartHandler = "hold" | "deaf" | "wait" | "quick" | "burn" | "append" | "hog";

/** The same tasks for callers: only their names matter there. */
export const task = (name: string) => defineTask({ name, run: async (_input: object) => {} });

/** Thresholds scaled down, with room for a machine that has other work: dead by silence after 3 s. */
export const SCALED: RecoveryOptions = {
  claimerHeartbeatInterval: 300,
  runnerHeartbeatInterval: 300,
  claimedStaleThreshold: 3_000,
  runningStaleThreshold: 3_000,
  warnAfter: 1_500,
  checkInterval: 100,
};

/** The same for tests in which somebody must not be late even where the machine has a great deal of other work. */
export const PATIENT: RecoveryOptions = {
  ...SCALED,
  claimerHeartbeatInterval: 500,
  runnerHeartbeatInterval: 500,
  claimedStaleThreshold: 8_000,
  runningStaleThreshold: 8_000,
  warnAfter: 4_000,
  sessionGrace: 3_000,
};

export interface HeartWorkerOptions {
  readonly url: string;
  readonly open?: OpenOptions;
  readonly work?: WorkOptions;
  readonly tasks?: readonly ({ handler: HeartHandler } & Partial<TaskOptions>)[];
  /** Where the handler `append` writes. */
  readonly file?: string;
  /** Lives on a pool of the application's own, of this size. */
  readonly poolSize?: number;
  readonly machineId?: string;
  readonly nodeArguments?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export interface HeartMessage {
  readonly event?: EventName;
  readonly handler?: "begun" | "aborted";
  readonly taskId?: string;
  readonly replicaId?: string;
  readonly [other: string]: unknown;
}

export interface HeartWorker {
  readonly pid: number;
  readonly replicaId: string;
  readonly messages: readonly HeartMessage[];
  /** The first message that fits, now or later. */
  heard(fits: Partial<HeartMessage>, within?: number): Promise<HeartMessage>;
  release(): void;
  signal(signal: NodeJS.Signals): void;
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** The signal that ended it; undefined while it lives. */
  readonly endedBy: NodeJS.Signals | null | undefined;
}

const FORWARDED: readonly EventName[] = [
  ...(["heart.beating", "heart.lost", "beat.refused", "replica.fenced", "replica.rejoined", "replica.dead"] as const),
  ...(["task.recovered", "task.ended", "claim.lost", "recovery.held", "handler.abandoned"] as const),
  ...(["reaper.took-over", "sweeps.stopped", "recovery.resumed"] as const),
];

export async function startHeartWorker(options: HeartWorkerOptions): Promise<HeartWorker> {
  const { machineId, nodeArguments = [], env = {}, ...config } = options;
  const child = fork(FIXTURE, [JSON.stringify({ ...config, forward: FORWARDED })], {
    stdio: ["ignore", "ignore", "pipe", "ipc"],
    execArgv: [...nodeArguments],
    env: { ...process.env, NODE_OPTIONS: "", ...env, ...(machineId ? { EVERBEAT_MACHINE_ID: machineId } : {}) },
  });
  const exited = once(child, "exit").then(([code, signal]) => ({ code, signal }));
  const kill = async () => {
    child.kill("SIGKILL");
    await exited;
  };
  onTestFinished(kill);
  const messages: HeartMessage[] = [];
  let complaints = "";
  child.on("message", (message: HeartMessage) => messages.push(message));
  child.stderr?.on("data", (text: Buffer) => {
    complaints += text;
  });
  const heard = (fits: Partial<HeartMessage>, within = 30_000) =>
    eventually(() => messages.find((message) => Object.entries(fits).every(([key, value]) => message[key] === value)), {
      within,
      what: `a message with ${JSON.stringify(fits)} from process ${child.pid} (it said ${JSON.stringify(messages.slice(-5))} ${complaints})`,
    }) as Promise<HeartMessage>;
  const ready = await heard({ ready: true }, 60_000);
  await heard({ event: "heart.beating" }, 60_000);
  return {
    pid: child.pid as number,
    replicaId: ready.replicaId ?? "",
    messages,
    heard,
    release: () => void child.send({ release: true }),
    signal: (signal) => void child.kill(signal),
    kill,
    exited,
    get endedBy() {
      return child.signalCode ?? (child.exitCode === null ? undefined : null);
    },
  };
}

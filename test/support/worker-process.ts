/** Worker processes of a test: real ones, that can be stopped and killed, and that are gone when the test is over. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { OpenOptions } from "../../src/config/open-options.ts";
import type { RecoveryOptions } from "../../src/config/recovery-options.ts";
import type { EventName } from "../../src/events.ts";
import { defineTask, type TaskOptions } from "../../src/task/define-task.ts";
import type { WorkOptions } from "../../src/worker/options.ts";
import { eventually } from "./eventually.ts";

const FIXTURE = fileURLToPath(new URL("worker-process.js", import.meta.url));

/** Handlers that worker-process.js knows; a task is named like its handler unless the options say otherwise. */
export type Handler =
  | ("quick" | "wait" | "burn" | "hold" | "deaf" | "bulky")
  | ("note" | "span" | "completeIn" | "append" | "hog" | "die")
  | ("throwInTimer" | "rejectUnawaited" | "leaveExit" | "script" | "sign");

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

/**
 * For a worker that has claimed ahead of its slots. What has waited for two seconds goes back at its next look at its own claims,
 * and is not claimed ahead again; with looks this rare, it can be seen for more than half a minute.
 */
export const KEEPS_AHEAD = { pollInterval: "1m" } as const;

export interface WorkerProcessOptions {
  readonly url: string;
  readonly open?: OpenOptions;
  readonly work?: WorkOptions;
  readonly tasks: readonly ({ handler: Handler; batchSize?: number } & Partial<TaskOptions>)[];
  /** Settings of the sessions in which handlers leave their traces. */
  readonly effectOptions?: string;
  /** Where the handlers `append` and `sign` write. */
  readonly file?: string;
  /** Lives on a pool of the application's own, of this size. */
  readonly poolSize?: number;
  /** The events that it reports, instead of the usual ones. */
  readonly forward?: readonly EventName[];
  readonly machineId?: string;
  readonly nodeArguments?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export interface Message {
  readonly ready?: boolean;
  readonly replicaId?: string;
  readonly event?: EventName;
  readonly handler?: "begun" | "returns" | "waits" | "aborted" | "committed" | "refused";
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
  /** Makes the application around the worker exit, throw, or reject without anyone awaiting it. */
  blunder(kind: "throw" | "reject" | "exit"): void;
  /** What it wrote to its standard error. */
  complaints(): string;
  signal(signal: NodeJS.Signals): void;
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** The signal that ended it; undefined while it lives. */
  readonly endedBy: NodeJS.Signals | null | undefined;
}

const USUALLY_FORWARDED: readonly EventName[] = [
  ...(["heart.beating", "heart.lost", "beat.refused", "replica.fenced", "replica.rejoined", "replica.dead"] as const),
  ...(["task.stalled", "loop.blocked"] as const),
  ...(["task.recovered", "task.ended", "claim.lost", "recovery.held", "handler.abandoned"] as const),
  ...(["reaper.took-over", "sweeps.stopped", "recovery.resumed"] as const),
  ...(["replica.examined", "post-mortem.failed"] as const),
];

/** Resolves when it works and its heart beats. */
export async function startWorker(options: WorkerProcessOptions): Promise<WorkerProcess> {
  const worker = forkWorker(options);
  const { replicaId = "" } = await worker.heard({ ready: true }, 60_000);
  return Object.assign(worker, { replicaId });
}

/** Its process, which has only just been started. */
export function forkWorker(options: WorkerProcessOptions): Omit<WorkerProcess, "replicaId"> {
  const { machineId, nodeArguments = [], env = {}, ...config } = options;
  const child = fork(FIXTURE, [JSON.stringify({ forward: USUALLY_FORWARDED, ...config })], {
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
  const messages: Message[] = [];
  let complaints = "";
  child.on("message", (message: Message) => messages.push(message));
  child.stderr?.on("data", (text: Buffer) => {
    complaints += text;
  });
  const heard = async (fits: Partial<Message>, within = 30_000) => {
    const find = () => messages.find((message) => matches(message, fits));
    const what = `a message with ${JSON.stringify(fits)} from process ${child.pid}`;
    return (await eventually(find, { within, what }).catch((error: Error) => {
      throw new Error(`${error.message}; it said ${JSON.stringify(messages.slice(-5))} ${complaints}`);
    })) as Message;
  };
  return {
    pid: child.pid as number,
    messages,
    heard,
    release: () => void child.send({ release: true }),
    close: () => void child.send({ close: true }),
    blunder: (kind) => void child.send({ blunder: kind }),
    complaints: () => complaints,
    signal: (signal) => void child.kill(signal),
    kill,
    exited,
    get endedBy() {
      return child.signalCode ?? (child.exitCode === null ? undefined : null);
    },
  };
}

function matches(message: Message, fits: Partial<Message>): boolean {
  return Object.entries(fits).every(([key, value]) => message[key] === value);
}

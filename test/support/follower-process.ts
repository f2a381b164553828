/** Processes of a test that follow a task, and are gone when the test is over. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { eventually } from "./eventually.ts";

const FIXTURE = fileURLToPath(new URL("follower-process.js", import.meta.url));

export interface Told {
  readonly kind: string;
  readonly position: string;
  readonly [other: string]: unknown;
}

export interface FollowerProcess {
  /** What it was told so far; the last is `over` when its loop has ended by itself. */
  readonly updates: readonly Told[];
  /** Waits for an update that fits, from this place on. */
  heard(fits: Record<string, unknown>, from?: number): Promise<Told>;
  signal(signal: NodeJS.Signals): void;
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
}

/** Without a task: all replicas. */
export function startFollower(options: { url: string; taskId?: string; from?: string }): FollowerProcess {
  const child = fork(FIXTURE, [JSON.stringify(options)], { env: { ...process.env, NODE_OPTIONS: "" } });
  const exited = once(child, "exit");
  const updates: Told[] = [];
  child.on("message", (update: Told) => updates.push(update));
  const kill = async () => {
    child.kill("SIGKILL");
    await exited;
  };
  onTestFinished(kill);
  return {
    updates,
    async heard(fits, from = 0) {
      const find = () =>
        updates.slice(from).find((update) => Object.entries(fits).every(([key, value]) => update[key] === value));
      const what = `an update with ${JSON.stringify(fits)}`;
      return (await eventually(find, { within: 30_000, what }).catch((error: Error) => {
        throw new Error(`${error.message}; told were ${JSON.stringify(updates)}`);
      })) as Told;
    },
    signal: (signal) => void child.kill(signal),
    kill,
  };
}

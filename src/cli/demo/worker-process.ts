/** A worker in a process of its own, to be killed, frozen and stopped. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { builtFile } from "../../package-files.ts";
import type { ReplicaId } from "../../task/ids.ts";
import { DemoFailedError } from "../errors.ts";

const MAIN = builtFile("cli/main.js");
const TASKS = builtFile("cli/demo/demo-worker-tasks.js");
const CONCURRENCY = 4;
const STOP_MS = 5_000;

/** Shorter than by default, so that nobody has to watch a worker standing still for a quarter of a minute. */
export const DEAD_AFTER_MS = 3_000;
/** The same for a blocked event loop: by default its stack is taken after five seconds. */
const BLOCKED_AFTER_MS = 500;
export const HEAP_LIMIT = "48MB";
const RECOVERY = [
  `runningStaleThreshold=${DEAD_AFTER_MS},runnerHeartbeatInterval=500ms`,
  `claimedStaleThreshold=${DEAD_AFTER_MS},claimerHeartbeatInterval=500ms`,
  `blockedLoop.stackAfter=${BLOCKED_AFTER_MS}`,
].join(",");

export interface WorkerProcess {
  /** A letter, for the story. */
  readonly name: string;
  /** Another one after it was taken for dead. */
  readonly replicaId: ReplicaId;
  /** Shown, never tested. */
  readonly pid: number;
  /** It has ended, by whomever. */
  readonly isGone: boolean;
  /** What it was ended by, if it was a signal. */
  readonly endedBy: NodeJS.Signals | null;
  kill(): Promise<void>;
  freeze(): void;
  thaw(): void;
  /** Gracefully, or by force where that takes too long. */
  stop(): Promise<void>;
}

export async function startWorkerProcess(name: string, databaseUrl: string): Promise<WorkerProcess> {
  const runners = `processes=1,heapLimit=${HEAP_LIMIT}`;
  const work = ["--concurrency", String(CONCURRENCY), "--prefetch", "0", "--recovery", RECOVERY, "--runners", runners];
  const args = [MAIN, "start", TASKS, "--json", ...work];
  // By the environment, since a command line with its password is visible to every user of the machine.
  const env = { ...process.env, DATABASE_URL: databaseUrl };
  const child = spawn(process.execPath, args, { env, stdio: ["pipe", "pipe", "pipe"] });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  child.stdin?.on("error", () => {});
  const kill = async () => {
    child.kill("SIGKILL");
    await ended;
  };
  try {
    let replicaId = await readReplicaId(name, child, (next) => {
      replicaId = next;
    });
    return {
      name,
      get replicaId() {
        return replicaId;
      },
      pid: child.pid ?? 0,
      get isGone() {
        return child.exitCode !== null || child.signalCode !== null;
      },
      get endedBy() {
        return child.signalCode;
      },
      kill,
      freeze: () => void child.kill("SIGSTOP"),
      thaw: () => void child.kill("SIGCONT"),
      async stop() {
        child.kill("SIGTERM");
        // One that is frozen hears nothing.
        const forced = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
        await ended;
        clearTimeout(forced);
      },
    };
  } catch (error) {
    await kill();
    throw error;
  }
}

/** The worker's own words on its standard output, read on so that it never waits for us. */
function readReplicaId(
  name: string,
  child: ChildProcess,
  onRejoined: (replicaId: ReplicaId) => void,
): Promise<ReplicaId> {
  return new Promise((resolve, reject) => {
    const said: string[] = [];
    const fail = () => reject(new DemoFailedError(`worker ${name} did not start:\n${said.join("\n")}`));
    const keep = (line: string) => said.push(line) > 20 && said.shift();
    child.once("error", fail);
    child.once("exit", fail);
    if (child.stderr) createInterface(child.stderr).on("line", keep);
    if (!child.stdout) return fail();
    createInterface(child.stdout).on("line", (line) => {
      keep(line);
      const { event, replicaId } = parse(line);
      if (event === "worker.started" && replicaId) resolve(replicaId);
      if (event === "replica.rejoined" && replicaId) onRejoined(replicaId);
    });
  });
}

function parse(line: string): { event?: string; replicaId?: ReplicaId } {
  try {
    return JSON.parse(line) as { event?: string; replicaId?: ReplicaId };
  } catch {
    return {};
  }
}

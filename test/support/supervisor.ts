/** A supervisor as a user runs it, with its children, what it said, and its end; all gone when the test is over. */
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { type Finished, projectWith, startEverbeat } from "../cli/run-cli.ts";
import { eventually } from "./eventually.ts";

/** How a task tells its own worker to stop, or its supervisor, and what it does in the same moment. */
export interface SignalInput {
  readonly who?: "parent" | "channel" | "listeners" | "kept";
  readonly signal?: NodeJS.Signals;
  readonly finally?: "exit" | "kill" | "block and kill";
}

/** Its tasks, known to callers by name alone. */
export const task = (name: "wait" | "hold" | "die" | "signal" | "grow" | "block" | "keep" | "fill" | "leaveExit") =>
  defineTask({
    name,
    run: async (_input: SignalInput & { ms?: number; code?: number; mib?: number }): Promise<unknown> => undefined,
  });

const TASKS = `
  import { existsSync } from "node:fs";
  import { defineTask } from "everbeat";
  if (existsSync("broken")) process.exit(7);
  /** From before anybody could watch it. */
  const kept = process.kill.bind(process);
  const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));
  export const wait = defineTask({ name: "wait", onCrash: "requeue", run: async ({ ms = 0 }) => { await pause(ms); return process.pid; } });
  /** Until its signal fires. */
  export const hold = defineTask({ name: "hold", onCrash: "requeue", run: (_, { signal }) =>
    new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))) });
  /** Tells its own worker to stop, or its supervisor, and ends its process in the same moment or waits for that. */
  export const signal = defineTask({ name: "signal", onCrash: "requeue", run: ({ who, signal = "SIGTERM", finally: last }) => {
    if (who === "channel") process.disconnect();
    else if (who === "listeners") process.emit(signal, signal);
    else if (who === "kept") kept(process.pid, signal);
    else process.kill(who === "parent" ? process.ppid : process.pid, signal);
    if (last?.startsWith("block")) for (const until = performance.now() + 50; performance.now() < until; );
    if (last === "exit") process.exit(3);
    if (last?.endsWith("kill")) process.kill(process.pid, "SIGKILL");
    return new Promise(() => {});
  } });
  /** Takes more memory, until it is ended for that. */
  export const grow = defineTask({ name: "grow", run: async () => {
    for (const held = []; ; await pause(10)) held.push(Buffer.alloc(2 * 1_048_576, 1));
  } });
  /** The same, again and again; without a pause if there is none. */
  export const fill = defineTask({ name: "fill", onCrash: "requeue", run: async ({ ms }) => {
    for (const held = []; ; ms && await pause(ms)) held.push(Buffer.alloc(2 * 1_048_576, 1));
  } });
  /** Takes that much memory at once, and keeps it until its signal fires. */
  export const keep = defineTask({ name: "keep", onCrash: "requeue", run: async ({ mib = 0 }, { signal }) => {
    const held = Buffer.alloc(mib * 1_048_576, 1);
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    return held.length;
  } });
  /** Never lets go of its loop. */
  export const block = defineTask({ name: "block", onCrash: "requeue", run: () => { for (;;); } });
  /** Ends well, and leaves a timer behind that ends the process. */
  export const leaveExit = defineTask({ name: "leaveExit", run: async ({ ms }) => { setTimeout(() => process.exit(1), ms); } });
  export const die = defineTask({ name: "die", run: ({ code = 3 }) => process.exit(code) });
`;

export interface Line {
  readonly event?: string;
  /** None in the supervisor's own lines that are about no child. */
  readonly child?: number | undefined;
  readonly pid?: number;
  readonly replicaId?: string;
  readonly [other: string]: unknown;
}

export interface RunningSupervisor {
  readonly pid: number;
  readonly ended: Promise<Finished>;
  /** What it and its children wrote, a JSON line each, in order. */
  lines(fits?: Partial<Line>): Line[];
  /** The first line that fits, after so many that fit as well. */
  said(fits: Partial<Line>, options?: { after?: number; within?: number }): Promise<Line>;
  signal(signal: NodeJS.Signals): void;
  /** From now on a child that starts ends at once with code 7… */
  breakTasks(): Promise<void>;
  /** …and not any more. */
  mendTasks(): Promise<void>;
}

export async function startSupervisor(options: {
  url: string;
  processes: number;
  arguments?: readonly string[];
}): Promise<RunningSupervisor> {
  const folder = await projectWith({ "tasks.js": TASKS });
  const args = ["start", "tasks.js", "--json", "--processes", String(options.processes), ...(options.arguments ?? [])];
  const running = startEverbeat(args, { database: options.url, cwd: folder });
  const lines = (fits: Partial<Line> = {}) => linesOf(running.stdout()).filter((line) => isLike(line, fits));
  onTestFinished(async () => {
    running.child.kill("SIGKILL");
    const gone = new Set(lines({ event: "child.exited" }).map(({ pid }) => pid));
    for (const { pid } of lines({ event: "child.started" })) if (!gone.has(pid)) end(pid);
  });
  return {
    pid: running.child.pid as number,
    ended: running.ended,
    lines,
    async said(fits, { after = 0, within = 40_000 } = {}) {
      const what = `line ${after + 1} with ${JSON.stringify(fits)}`;
      const line = await eventually(() => lines(fits)[after], { within, what }).catch((error: Error) => {
        throw new Error(`${error.message}, in:\n${running.stdout()}`);
      });
      return line as Line;
    },
    signal: (signal) => void running.child.kill(signal),
    breakTasks: () => writeFile(join(folder, "broken"), ""),
    mendTasks: () => rm(join(folder, "broken")),
  };
}

/** The line that names the process and the replica of each child, when all are ready. */
export async function untilReady(supervisor: RunningSupervisor, processes: number): Promise<Line[]> {
  return Promise.all(
    Array.from({ length: processes }, (_, index) => supervisor.said({ event: "child.ready", child: index + 1 })),
  );
}

function linesOf(text: string): Line[] {
  return text.split("\n").flatMap((line) => {
    try {
      return [JSON.parse(line) as Line];
    } catch {
      return [];
    }
  });
}

function isLike(line: Line, fits: Partial<Line>): boolean {
  return Object.entries(fits).every(([key, value]) => line[key] === value);
}

/** Children outlive a supervisor that a test has killed. */
function end(pid: number | undefined): void {
  try {
    if (pid) process.kill(pid, "SIGKILL");
  } catch {
    // It is gone.
  }
}

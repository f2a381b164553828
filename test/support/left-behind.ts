/** A task whose handler has started a process, which writes on: what becomes of that process is what is tried. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { TaskOptions } from "../../src/task/define-task.ts";
import type { WorkOptions } from "../../src/worker/options.ts";
import { type CrashDatabase, openCrashDatabase } from "./crash-database.ts";
import { isAlive } from "./processes.ts";
import { type RunnerWorker, startRunnerWorker, task } from "./runner-worker.ts";
import { SCALED } from "./worker-process.ts";

export interface LeftBehind {
  readonly database: CrashDatabase;
  readonly worker: RunnerWorker;
  readonly id: string;
  /** The runner's process. */
  readonly runner: number;
  /** The process that the handler has started. */
  readonly left: number;
  /** The same for each attempt so far. */
  allLeft(): number[];
  /** Where such processes write to. */
  readonly file: string;
  /** The claims for which a line was written, in order. */
  lines(): string[];
}

/** By then the process has written its first line. `how` is what the handler does next. */
export async function leaveBehind(
  input: { readonly how?: string; readonly detached?: boolean } = {},
  options: {
    readonly task?: Partial<TaskOptions>;
    readonly work?: WorkOptions;
    readonly nodeArguments?: readonly string[];
  } = {},
): Promise<LeftBehind> {
  const folder = mkdtempSync(join(tmpdir(), "everbeat-left-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "lines");
  const database = await openCrashDatabase();
  const worker = await startRunnerWorker({
    url: database.url,
    open: { recovery: SCALED },
    tasks: [
      { handler: "leaveBehind", runIn: "process", ...options.task },
      { handler: "look", runIn: "process" },
      { handler: "throwPointless", runIn: "process" },
    ],
    work: { abortGrace: 300, runners: { processes: 1 }, ...options.work },
    nodeArguments: options.nodeArguments ?? [],
  });
  const allLeft = () =>
    worker.messages.filter(({ said }) => said === "left behind").map((message) => message["left"] as number);
  onTestFinished(() => {
    for (const left of allLeft()) if (isAlive(left)) process.kill(left, "SIGKILL");
  });
  const id = await database.everbeat.enqueue(task("leaveBehind"), { file, ...input });
  const left = (await worker.heard({ said: "left behind", taskId: id }))["left"] as number;
  const runner = (await worker.heard({ said: "begun", taskId: id })).pid as number;
  const lines = () => readFileSync(file, "utf8").trimEnd().split("\n");
  return { database, worker, id, runner, left, allLeft, file, lines };
}

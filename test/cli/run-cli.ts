/** The real command line in a process of its own, as a user would run it. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished, type TestContext } from "vitest";
import { eventually } from "../support/eventually.ts";

export const repository = fileURLToPath(new URL("../../", import.meta.url));
export const MAIN = join(repository, "dist/cli/main.js");

/** The columns that commands have in tests. What they do with fewer is told by narrow.test.ts. */
export const WIDE = "1000";

export interface Finished {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly database?: string;
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** For its standard input. */
  readonly input?: string;
  /** Descriptors of files that take the place of the pipes to the test. */
  readonly stdout?: number;
  readonly stderr?: number;
  /** The test's, where several run at once: vitest cannot tell then which of them it is. */
  readonly context?: Pick<TestContext, "onTestFinished">;
}

export interface RunningCli {
  readonly child: ChildProcess;
  readonly ended: Promise<Finished>;
  stdout(): string;
  /** Waits until standard output holds this, and fails at once where the process ends before. */
  says(text: string | RegExp, within?: number): Promise<void>;
}

export async function everbeat(args: readonly string[], options: RunOptions = {}): Promise<Finished> {
  return startEverbeat(args, options).ended;
}

/** The one JSON document of a command, whatever its exit code. */
export async function everbeatJson<T>(
  args: readonly string[],
  options: RunOptions = {},
): Promise<{ code: number | null; answer: T }> {
  const { code, stdout } = await everbeat([...args, "--json"], options);
  return { code, answer: JSON.parse(stdout) as T };
}

export function startEverbeat(args: readonly string[], options: RunOptions = {}): RunningCli {
  const child = spawn(process.execPath, [MAIN, ...args], {
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    env: { ...cleanEnvironment(), ...(options.database ? { DATABASE_URL: options.database } : {}), ...options.env },
    stdio: ["pipe", options.stdout ?? "pipe", options.stderr ?? "pipe"],
  });
  // A command that refuses before it has read everything closes this end.
  child.stdin?.on("error", () => {}).end(options.input ?? "");
  let stdout = "";
  let stderr = "";
  child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
    stdout += chunk;
  });
  child.stderr?.setEncoding("utf8").on("data", (chunk: string) => {
    stderr += chunk;
  });
  const ended = new Promise<Finished>((resolve) =>
    child.once("close", (code, signal) => resolve({ code, signal, stdout, stderr })),
  );
  (options.context?.onTestFinished ?? onTestFinished)(() => void child.kill("SIGKILL"));
  return {
    child,
    ended,
    stdout: () => stdout,
    async says(text, within = 15_000) {
      const holds = () => (typeof text === "string" ? stdout.includes(text) : text.test(stdout));
      const isOver = () => child.exitCode !== null || child.signalCode !== null;
      await eventually(() => holds() || isOver(), { within, what: `${text} in ${JSON.stringify(stdout)}` });
      if (!holds()) throw new Error(`it ended without saying ${text}:\n${stdout}\n${stderr}`);
    },
  };
}

/** A folder with these files, in which the package `everbeat` is installed; gone after the test. */
export async function projectWith(files: Record<string, string>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "everbeat-cli-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, "node_modules"));
  await symlink(repository, join(folder, "node_modules/everbeat"));
  await symlink(join(repository, "node_modules/zod"), join(folder, "node_modules/zod"));
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return folder;
}

/** Nothing of how the tests themselves were started: neither colours nor a database. So wide that each row of a table is one line. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  const { DATABASE_URL: _url, FORCE_COLOR: _force, NO_COLOR: _no, NODE_OPTIONS: _node, ...rest } = process.env;
  return { ...rest, COLUMNS: WIDE };
}

// Runs one of PostgreSQL's programs, or a small system tool, as another user where one is given.
//
// That user can stop such a process with a signal, keep its output open after its end, or have it write without end. So each has a time
// limit, after which it is killed with its whole process group, and nobody waits for its output longer than that.
import type { ChildProcess, SpawnOptions } from "node:child_process";
import { parse } from "node:path";
import { Timer } from "../../timer.ts";
import { EmbeddedProgramStuckError } from "./program-errors.ts";
import { type StdioEntry, spawnClosed } from "./spawn-closed.ts";
import type { ServerAccount } from "./users.ts";

export interface ProgramResult {
  /** undefined when the program could not be run at all; `output` then holds the reason. */
  readonly exitCode: number | undefined;
  readonly output: string;
}

interface Running {
  readonly input?: string | undefined;
  readonly timeoutMs?: number | undefined;
  /** For the error: what cannot go on while the program hangs. */
  readonly purpose?: string | undefined;
}

const PATIENCE_MS = 60_000;
/** After its end, another process that it has started may have its output. */
const LAST_WORDS_MS = 1_000;
const MOST_OUTPUT = 64 * 1024;
const SHELL = "/bin/sh";

/** Rejects when it has not ended in time. */
export function runProgram(
  program: string,
  args: readonly string[],
  account: ServerAccount | undefined,
  { input = "", timeoutMs = PATIENCE_MS, purpose = `The program ${program}` }: Running = {},
): Promise<ProgramResult> {
  return new Promise((resolve, reject) => {
    const child = startProgram(program, args, account, {
      stdio: [input === "" ? "ignore" : "pipe", "pipe", "pipe"],
    });
    const settle = (how: () => void) => {
      limit.stop();
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.destroy();
      child.unref();
      how();
    };
    const limit = new Timer(timeoutMs, () => {
      killProgram(child, account);
      settle(() => reject(new EmbeddedProgramStuckError(purpose, timeoutMs, account?.uid)));
    });
    let output = "";
    const hear = (chunk: Buffer) => {
      if (output.length < MOST_OUTPUT) output += chunk;
    };
    child.stdout?.on("data", hear);
    child.stderr?.on("data", hear);
    // A program that ends without having read it is judged by its exit code.
    child.stdin?.on("error", () => {});
    child.stdin?.end(input);
    child.once("error", ({ message }) => settle(() => resolve({ exitCode: undefined, output: message })));
    child.once("exit", (code, signal) => {
      const end = () => settle(() => resolve(resultOf(program, code, signal, output)));
      child.once("close", end);
      setTimeout(end, LAST_WORDS_MS).unref();
    });
  });
}

function resultOf(program: string, code: number | null, signal: string | null, output: string): ProgramResult {
  if (signal !== null) return { exitCode: 1, output: `${output}\nended by ${signal}` };
  if (program !== SHELL && couldNotRun(code))
    return { exitCode: undefined, output: `${program} could not be run: ${output}` };
  return { exitCode: code ?? 1, output };
}

/** A shell's exit code for a program that is not there, or not to be executed; the loader has it as well. */
export const couldNotRun = (code: number | null): boolean => code === 126 || code === 127;

interface Starting {
  readonly stdio: readonly StdioEntry[];
  readonly environment?: NodeJS.ProcessEnv | undefined;
  readonly detached?: boolean;
}

/** How every server program is started: as the right user, from a folder that anyone may be in, with no open file but those given to it. */
export function startProgram(
  program: string,
  args: readonly string[],
  account: ServerAccount | undefined,
  { environment, ...options }: Starting,
): ChildProcess {
  const { env, ...surroundings } = surroundingsOf(account);
  const all = { ...surroundings, ...options, env: { ...env, ...environment } };
  // Until a program is loaded, Node stands still, and a file system of that user's own may never give it. A shell is loaded at once.
  const isLoadedByShell = account !== undefined && program !== SHELL;
  if (isLoadedByShell) return spawnClosed(SHELL, ["-c", 'exec "$0" "$@"', program, ...args], all, account);
  return spawnClosed(program, args, all, account);
}

/** With all that it has started, as far as that has stayed in its process group. */
export function killProgram(child: ChildProcess, account: ServerAccount | undefined): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  if (account === undefined) return void child.kill("SIGKILL");
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {} // It has just ended.
}

function surroundingsOf(account: ServerAccount | undefined): Omit<SpawnOptions, "stdio"> {
  const cwd = parse(process.cwd()).root;
  if (account === undefined) return { cwd, env: plainEnvironment(/^(?!PG|LC_|LANG|NODE_OPTIONS$)/) };
  const { uid, gid } = account;
  // That user can read the environment of such a process: nothing of root's that may be a secret is in it.
  const env = plainEnvironment(/^(PATH|TZ|TMPDIR|LD_LIBRARY_PATH)$/);
  // In a session of its own, without a terminal: into root's, that user could type commands for root's shell.
  return { cwd, env, uid, gid, detached: true };
}

/** The caller's PG* variables would point the programs elsewhere; a foreign language would hide what they say. */
function plainEnvironment(names: RegExp): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => names.test(name));
  return { ...Object.fromEntries(kept), LC_ALL: "C" };
}

// Runs one of PostgreSQL's programs, or a small system tool, to its end, as another user where one is given.
import { spawn } from "node:child_process";
import { parse } from "node:path";
import type { ServerAccount } from "./server-account.ts";

export interface ProgramResult {
  /** undefined when the program could not be run at all; `output` then holds the reason. */
  readonly exitCode: number | undefined;
  readonly output: string;
}

export function runProgram(
  program: string,
  args: readonly string[],
  account: ServerAccount | undefined,
  { input = "", timeoutMs }: { input?: string; timeoutMs?: number } = {},
): Promise<ProgramResult> {
  return new Promise((resolve) => {
    let output = "";
    const child = spawn(program, args, {
      ...spawnAs(account),
      ...(timeoutMs === undefined ? {} : { timeout: timeoutMs, killSignal: "SIGKILL" }),
      stdio: [input === "" ? "ignore" : "pipe", "pipe", "pipe"],
    });
    // A program that ends without having read it is judged by its exit code.
    child.stdin?.on("error", () => {});
    child.stdin?.end(input);
    child.stdout?.on("data", (chunk: Buffer) => (output += chunk));
    child.stderr?.on("data", (chunk: Buffer) => (output += chunk));
    child.once("error", (error) => resolve({ exitCode: undefined, output: error.message }));
    child.once("close", (code, signal) => {
      resolve({ exitCode: code ?? 1, output: signal === null ? output : `${output}\nended by ${signal}` });
    });
  });
}

/** How every server program is run: as the right user, from a folder that anyone may be in. */
export function spawnAs(account: ServerAccount | undefined): {
  cwd: string;
  env: NodeJS.ProcessEnv;
  uid?: number;
  gid?: number;
  detached?: boolean;
} {
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

/**
 * A command in the test's own process: to start one for each of so many would take most of the time. What a process of its own does
 * (its exit, its pipes, signals, a tasks file) is for `run-cli.ts`, by which every command is run as well.
 */
import { vi } from "vitest";
import { runCli } from "../../src/cli/run-cli.ts";
import { WIDE } from "./run-cli.ts";

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface HereOptions {
  readonly database?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
}

export async function everbeatHere(words: readonly string[], options: HereOptions = {}): Promise<Ran> {
  // Nothing of how the tests themselves were started: neither colours nor a database.
  for (const name of ["DATABASE_URL", "FORCE_COLOR", "NO_COLOR"]) vi.stubEnv(name, undefined);
  vi.stubEnv("COLUMNS", WIDE);
  if (options.database !== undefined) vi.stubEnv("DATABASE_URL", options.database);
  for (const [name, value] of Object.entries(options.env ?? {})) vi.stubEnv(name, value);
  try {
    const { result, ...printed } = await printedDuring(() => runCli(words));
    return { code: result, ...printed };
  } finally {
    vi.unstubAllEnvs();
  }
}

/** What this process writes to its standard streams in that time. */
export async function printedDuring<T>(work: () => Promise<T>): Promise<{ result: T; stdout: string; stderr: string }> {
  const streams = { stdout: process.stdout, stderr: process.stderr };
  const printed = { stdout: "", stderr: "" };
  const writes = { stdout: process.stdout.write, stderr: process.stderr.write };
  const names = ["stdout", "stderr"] as const;
  for (const name of names)
    streams[name].write = (chunk: string | Uint8Array, encoding?: unknown, done?: unknown) => {
      printed[name] += chunk;
      const onWritten = typeof encoding === "function" ? encoding : done;
      if (typeof onWritten === "function") process.nextTick(onWritten);
      return true;
    };
  try {
    return { result: await work(), ...printed };
  } finally {
    for (const name of names) {
      streams[name].write = writes[name];
      streams[name].removeAllListeners("error");
    }
  }
}

/** The one JSON document of a command, whatever its exit code. */
export async function everbeatJsonHere<T>(
  words: readonly string[],
  options: HereOptions = {},
): Promise<{ code: number; answer: T }> {
  const { code, stdout } = await everbeatHere([...words, "--json"], options);
  return { code, answer: JSON.parse(stdout) as T };
}

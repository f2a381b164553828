// A project folder with an embedded server of its own, and real processes that join it; all gone after the test.
import { type ChildProcess, fork } from "node:child_process";
import { createHash } from "node:crypto";
import { chmod, chown, mkdtemp, readFile, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { TestContext } from "vitest";
import { stopEmbeddedServer } from "../../src/database/embedded/embedded-server.ts";
import { type Joined, until } from "./embedded-looks.ts";
import { keepersOf } from "./embedded-processes.ts";

export const LINGER_MS = 250;
const SYSTEM_PROJECTS = "/var/lib/everbeat/projects";
export const repository = fileURLToPath(new URL("../..", import.meta.url));

type Report =
  | Joined
  | { kind: "here" }
  | { kind: "progress"; message: string }
  | { kind: "failed"; code: string; message: string };

export interface ClientProcess {
  readonly reports: Report[];
  startJoining(): void;
  joined(): Promise<Joined>;
  /** Tells it to join, and waits until it has. */
  join(): Promise<Joined>;
  failure(): Promise<{ code: string; message: string }>;
  startLeaving(): void;
  close(): Promise<void>;
  signal(signal: NodeJS.Signals): void;
  kill(signal: NodeJS.Signals): Promise<void>;
}

export interface ClientOptions {
  readonly uid?: number;
  readonly gid?: number;
  readonly checkout?: string;
  readonly lingerMs?: number;
  /** What it has to itself, as a process of another container has. */
  readonly apart?: readonly ("pid" | "ipc" | "net")[];
  /** Of the client alone: other tests of the same process make files at the same time. */
  readonly umask?: number;
  /** Besides what the test's own process has. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Another than the project was made with, as after a rename. Its server is stopped after the test as well. */
  readonly folder?: string;
}

interface ProjectOptions {
  readonly mode?: number;
  readonly uid?: number;
  readonly inside?: string;
}

/** Takes the test's context, and not vitest's global hook, because these tests run side by side. */
export async function temporaryProject(
  { onTestFinished }: Pick<TestContext, "onTestFinished">,
  options: ProjectOptions = {},
) {
  const root = await mkdtemp("/tmp/everbeat-embedded-");
  await chmod(root, options.mode ?? 0o755);
  if (options.uid !== undefined) await chown(root, options.uid, options.uid);
  const folder = join(root, options.inside ?? "", ".everbeat");
  const processes: ChildProcess[] = [];
  const folders = new Set([folder]);
  onTestFinished(async () => {
    for (const child of processes) child.kill("SIGKILL");
    for (const used of folders) {
      await stopEmbeddedServer(used).catch(() => {});
      // It must read that the stop was on purpose before the folder goes, or it starts the server once more.
      await until("the keeper to leave", async () => (await keepersOf(used)).length === 0);
    }
    // By names that only this function and systemProjectFolder make, never by where a link happens to point: a test may
    // have pointed it anywhere, and this runs as root.
    const elsewhere = [...folders].map(systemNameOf);
    for (const left of [root, ...elsewhere.map((name) => join(SYSTEM_PROJECTS, name))]) {
      await rm(left, { recursive: true, force: true, maxRetries: 10 });
    }
  });
  const client = async (clientOptions: ClientOptions = {}) => {
    const used = clientOptions.folder ?? folder;
    folders.add(used);
    return await startClient(used, processes, clientOptions);
  };
  return { root, folder, client };
}

/** With a process that has joined its server. */
export async function joinedProject(context: Pick<TestContext, "onTestFinished">, options: ProjectOptions = {}) {
  const project = await temporaryProject(context, options);
  const client = await project.client();
  return { project, client, joined: await client.join() };
}

function systemNameOf(folder: string): string {
  return `${basename(dirname(folder))}-${createHash("sha256").update(folder).digest("hex").slice(0, 12)}`;
}

async function startClient(folder: string, processes: ChildProcess[], options: ClientOptions) {
  const { checkout = repository, uid, gid = uid, lingerMs = LINGER_MS, umask, apart, environment } = options;
  const moduleUrl = pathToFileURL(join(checkout, "dist/database/embedded/embedded-server.js")).href;
  const args = [moduleUrl, JSON.stringify({ folder, lingerMs }), String(umask ?? "")];
  const user = uid === undefined ? {} : { uid, gid };
  const env = { ...process.env, NODE_OPTIONS: "", ...environment };
  const unshared = apart?.map((what) => `--${what}`);
  const place = unshared && { execPath: "unshare", execArgv: [...unshared, "--fork", process.execPath] };
  const script = join(checkout, "test/support/embedded-client.js");
  const child = fork(script, args, { ...user, ...place, env, detached: true });
  processes.push(child);
  const reports: Report[] = [];
  child.on("message", (report: Report) => reports.push(report));
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const report = async <Kind extends Report["kind"]>(kind: Kind) => {
    const seen = await until(`a report that it ${kind}`, () =>
      child.exitCode === null
        ? reports.find((known) => known.kind === kind || known.kind === "failed")
        : child.exitCode,
    ).catch(async (error: Error) => {
      const log = await readFile(join(folder, "postgres.log"), "utf8").catch(() => "none");
      throw new Error(`${error.message}; the server's log ends with:\n${log.slice(-4_000)}`);
    });
    if (typeof seen === "number") throw new Error(`the client ended with ${seen}`);
    if (seen.kind === "failed" && kind !== "failed") throw new Error(seen.message);
    return seen as Extract<Report, { kind: Kind }>;
  };
  await report("here");
  const client: ClientProcess = {
    reports,
    startJoining: () => void child.send("join"),
    joined: () => report("joined"),
    signal: (signal) => void child.kill(signal),
    async join() {
      client.startJoining();
      return await client.joined();
    },
    async failure() {
      client.startJoining();
      return await report("failed");
    },
    startLeaving: () => void child.send("close"),
    async close() {
      client.startLeaving();
      await ended;
    },
    async kill(signal) {
      // The whole group, as a terminal does with Ctrl-C: what it started must have left the group.
      process.kill(-Number(child.pid), signal);
      await ended;
    },
  };
  return client;
}

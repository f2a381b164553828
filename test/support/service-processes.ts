/** Processes that could run services of the cluster: real ones, each with a list of its own. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { TestDatabase } from "./database.ts";
import { eventually } from "./eventually.ts";

export interface ServiceProcessOptions {
  readonly url: string;
  /** `isHeldUp`: a run goes on until the process is told to let go, or the run is asked to end. */
  readonly services: readonly { readonly name: string; readonly everyMs: number; readonly isHeldUp?: boolean }[];
}

interface Message {
  readonly ready?: string;
  readonly begun?: string;
  readonly aborted?: string;
  readonly error?: string;
}

export async function startServiceProcess(options: ServiceProcessOptions) {
  const fixture = fileURLToPath(new URL("service-process.ts", import.meta.url));
  const child = fork(fixture, [JSON.stringify(options)], {
    execArgv: ["--import", "jiti/register"],
    env: { ...process.env, NODE_OPTIONS: "" },
  });
  const exited = once(child, "exit");
  const kill = async () => {
    child.kill("SIGKILL");
    await exited;
  };
  onTestFinished(kill);
  const messages: Message[] = [];
  child.on("message", (message: Message) => messages.push(message));
  const heard = (fits: (message: Message) => boolean) =>
    eventually(() => messages.find(fits), { within: 30_000, what: `a message from process ${child.pid}` });
  const ready = await heard((message) => message.ready !== undefined);
  return {
    id: ready?.ready as string,
    heard,
    kill,
    release: () => void child.send("release"),
    signal: (signal: NodeJS.Signals) => void child.kill(signal),
  };
}
export type ServiceProcess = Awaited<ReturnType<typeof startServiceProcess>>;

export interface RunRow {
  readonly by: string;
  readonly beganAt: Date;
  readonly endedAt: Date | null;
}

/** Where runs leave their traces. */
export async function runsOn(database: TestDatabase): Promise<(service: string) => Promise<RunRow[]>> {
  await database.query("create table public.run (service text, by uuid, began_at timestamptz, ended_at timestamptz)");
  return (service) =>
    database.query<RunRow>(
      `select by::text, began_at as "beganAt", ended_at as "endedAt" from public.run where service = $1 order by began_at`,
      [service],
    );
}

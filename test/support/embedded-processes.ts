// The processes of an embedded server: its keepers and its postmaster, found and killed.
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { query, until } from "./embedded-looks.ts";

export const keepersOf = (folder: string): Promise<number[]> => processesWith("keeper.js", folder);

/** Those whose command line names this program and this folder; the tests signal them, nothing else looks at this. */
export async function processesWith(program: string, folder: string): Promise<number[]> {
  const found: number[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const command = await readFile(`/proc/${name}/cmdline`, "utf8").catch(() => "");
    if (command.includes(program) && command.split("\0").includes(folder)) found.push(Number(name));
  }
  return found;
}

const KEEPERS_AT_WORK = `
  select distinct session.pid
  from pg_stat_activity session join pg_locks using (pid)
  where session.application_name = 'everbeat keeper' and locktype = 'advisory' and granted`;

/** Their sessions. */
async function keepersAtWork(url: string): Promise<number[]> {
  return (await query<{ pid: number }>(url, KEEPERS_AT_WORK)).map(({ pid }) => pid);
}

/** Until then those who are joined find the server unkept, and spawn another, which leaves again. */
export async function oneKeeperAtWork(folder: string, url: string): Promise<void> {
  await until("one keeper at work", async () => {
    return (await keepersAtWork(url)).length === 1 && (await keepersOf(folder)).length === 1;
  });
}

/** Those who are joined may have spawned the next by then. */
export async function killKeeper(folder: string, url: string): Promise<void> {
  await oneKeeperAtWork(folder, url);
  const killed = await keepersAtWork(url);
  for (const keeper of await keepersOf(folder)) process.kill(keeper, "SIGKILL");
  await until("the keeper to be gone", async () => !(await keepersAtWork(url)).some((pid) => killed.includes(pid)));
}

export async function killPostmaster(dataFolder: string, signal: NodeJS.Signals): Promise<void> {
  const [first] = (await readFile(join(dataFolder, "postmaster.pid"), "utf8")).split("\n");
  // Zero and negative numbers would mean a whole group of processes, ours among them.
  if (!/^[1-9]\d+$/.test(first ?? "")) throw new Error(`no process in postmaster.pid: ${first}`);
  process.kill(Number(first), signal);
}

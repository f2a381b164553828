/** The isolation levels at which Everbeat writes, by the server's own account, and a bit of everything that it writes. */
import { expect } from "vitest";
import type { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import type { TestDatabase } from "./database.ts";
import { eventually } from "./eventually.ts";

const WATCHED = ["task", "ready", "running", "ended", "heart", "replica", "listening", "queue"] as const;

/** Notes at which levels rows of these tables are written. */
export async function watchLevels({ query }: TestDatabase): Promise<void> {
  await query("create table level (written text, level text, unique (written, level))");
  await query(`create function note_level() returns trigger language plpgsql as $$
    begin
      insert into public.level values (tg_table_name, current_setting('transaction_isolation')) on conflict do nothing;
      return null;
    end $$`);
  for (const table of WATCHED)
    await query(
      `create trigger levels after insert or update or delete on everbeat.${table} execute function note_level()`,
    );
}

export async function levelsSeen({ query }: TestDatabase): Promise<Record<string, string[]>> {
  const rows = await query<{ written: string; levels: string[] }>(
    "select written, array_agg(level order by level) as levels from level group by written order by written",
  );
  return Object.fromEntries(rows.map(({ written, levels }) => [written, levels]));
}

export const ALL_READ_COMMITTED = Object.fromEntries([...WATCHED].sort().map((table) => [table, ["read committed"]]));

const add = defineTask({ name: "add", run: async (n: number) => n + 1 });

/** A bit of everything that Everbeat writes: single, bulk and keyed enqueues, claims, ends, beats, sweeps, orders. */
export async function useEverything(everbeat: Everbeat, { query }: TestDatabase): Promise<void> {
  await everbeat.queues.set("default", { concurrency: 5 });
  const worker = await everbeat.work([add], { handleSignals: false });
  expect(await everbeat.result(await everbeat.enqueue(add, 1))).toBe(2);
  await everbeat.enqueueMany(add, [1, 2, 3]);
  expect(await everbeat.result(await everbeat.enqueue(add, 4, { uniqueKey: "four" }))).toBe(5);
  await everbeat.tasks.cancel([await everbeat.enqueue(add, 1, { runAt: new Date(Date.now() + 3_600_000) })]);
  const beats = "select count(*)::int as n from level where written in ('heart', 'listening')";
  await eventually(async () => ((await query<{ n: number }>(beats))[0]?.n ?? 0) >= 2, { what: "a beat and a sweep" });
  await worker.stop();
}

/**
 * One run of the hardest scene: a worker is cut off from the database in the middle of a task that others may repeat, and
 * another worker takes over. Both append to one file every 10 ms, by the same steady clock.
 */
import { existsSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { openCrashDatabase } from "./crash-database.ts";
import { type CutDirection, startCuttingProxy } from "./cutting-proxy.ts";
import { eventually } from "./eventually.ts";
import { SCALED, startWorker, task } from "./worker-process.ts";

export interface CutRun {
  readonly direction: CutDirection;
  readonly how: "obey" | "ignore" | "block";
  /** From the last line of the old attempt to the first of the new one; below zero, both ran at once. */
  readonly gapMs: number;
  readonly linesBefore: number;
  /** How the process that was cut off ended, if it did. */
  readonly ended: NodeJS.Signals | null | "lives on";
}

/** In memory where there is such a folder: whoever obeys must not be held up by a disk that the database is writing to. */
const FOLDER = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

/** All runs share a database; each has workers, a proxy and a file of its own. */
export async function openCutScene(): Promise<{
  run(how: CutRun["how"], direction: CutDirection): Promise<CutRun>;
}> {
  const database = await openCrashDatabase();
  const open = { recovery: SCALED };
  return {
    async run(how, direction) {
      const file = join(FOLDER, `everbeat-heart-${process.pid}-${Math.random().toString(36).slice(2)}`);
      onTestFinished(() => rm(file, { force: true }));
      const tasks = [{ handler: "append", onCrash: "requeue" }] as const;
      const proxy = await startCuttingProxy(database.url);
      // Who obeys does so at once, if the machine lets it.
      const work = { abortGrace: how === "obey" ? 500 : 100 };
      const old = await startWorker({ url: proxy.url, open, tasks, file, work });
      const id = await database.everbeat.enqueue(task("append"), { how });
      await old.heard({ handler: "begun", taskId: id });
      const other = await startWorker({ url: database.url, open, tasks, file });
      const lines = async () => (await readFile(file, "utf8").catch(() => "")).trimEnd().split("\n");
      await eventually(async () => (await lines()).length > 20);
      proxy.cut(direction);
      await database.everbeat.result(id, { timeout: 30_000 });
      // The new attempt goes on for a while, in which an old one that has not stopped would show.
      const parsed = (await lines()).map((line) => line.split(" "));
      const timesOf = (attempt: string) => parsed.filter((line) => line[2] === attempt).map(([at]) => BigInt(at ?? 0));
      const [before, after] = [timesOf("1"), timesOf("2")];
      const gapMs = Number((after[0] ?? 0n) - (before.at(-1) ?? 0n)) / 1e6;
      // Whoever is to be ended was, before the other began; to hear of it may take this process a moment.
      if (how !== "obey") await eventually(() => old.endedBy !== undefined).catch(() => {});
      const ended = old.endedBy === undefined ? "lives on" : old.endedBy;
      await Promise.all([old.kill(), other.kill()]);
      proxy.close();
      return { direction, how, gapMs, linesBefore: before.length, ended };
    },
  };
}

/** A worker looks at its cgroup twice a second for the post-mortems of runners' processes. Where it has none, only its heart reads the cgroup, with each beat. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test, vi } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { startRunnerWorker, task } from "../support/runner-worker.ts";
import { SCALED } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 60_000 });

const PRELOAD = fileURLToPath(new URL("../support/note-cgroup-reads.js", import.meta.url));

async function startWorker(runIn: "process" | "thread") {
  const folder = mkdtempSync(join(tmpdir(), "everbeat-cgroup-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "reads");
  const { everbeat, url } = await openCrashDatabase();
  const nodeArguments = ["--import", `file://${PRELOAD}?file=${encodeURIComponent(file)}`];
  const tasks = [{ handler: "look", runIn }] as const;
  await startRunnerWorker({ url, tasks, open: { recovery: SCALED }, nodeArguments });
  await everbeat.result(await everbeat.enqueue(task("look"), {}), { timeout: 30_000 });
  /** With these settings the runners are looked at as often as a beat comes. */
  const untilLooked = async (times: number) => {
    const beats = new Set<number>();
    const beatAt = async () => beats.add(Number((await everbeat.replicas())[0]?.seenAt)).size;
    await eventually(beatAt, { until: (seen) => seen > times, within: 30_000 });
  };
  return { untilLooked, reads: () => (existsSync(file) ? readFileSync(file, "utf8").split("\n").length - 1 : 0) };
}

test("a worker with processes reads them again and again", async () => {
  const { reads } = await startWorker("process");
  await eventually(reads, { until: (count) => count > 5, within: 30_000 });
});

test("a worker with threads alone never reads them", async () => {
  const { reads, untilLooked } = await startWorker("thread");
  await untilLooked(5);
  expect(reads()).toBe(0);
});

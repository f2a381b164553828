/** How long it takes from SIGKILL of a supervised worker to the verdict, at default settings; raw times in results/supervised-kills.json. */
import { mkdir, writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { startSupervisor, task, untilReady } from "../support/supervisor.ts";

const KILLS = Number(process.env["EVERBEAT_KILLS"] ?? 100);
const PROCESSES = 2;

test(`${KILLS} killed workers of a supervisor are known to be dead within 300 ms at the 99th percentile`, async () => {
  const database = await openCrashDatabase();
  // Every child that became ready counts as well, so that only the first pause comes before each restart.
  const restarts = ["--healthy-after", "0", "--recovery", "crashBudget=1000"];
  const supervisor = await startSupervisor({ url: database.url, processes: PROCESSES, arguments: restarts });
  await untilReady(supervisor, PROCESSES);
  const id = await database.everbeat.enqueue(task("hold"), {});
  const kills: { verdictMs: number; runningAgainMs: number; because: unknown }[] = [];
  for (let kill = 0; kill < KILLS; kill++) {
    const { replicaId } = await eventually(() => database.everbeat.tasks.show(id), {
      until: ({ state, attempt }) => state === "running" && attempt === kill + 1,
      within: 30_000,
    });
    const ready = await supervisor.said({ event: "child.ready", replicaId: replicaId ?? "" });
    const [{ at: killedAt } = { at: new Date() }] = await database.query<{ at: Date }>(
      "select clock_timestamp() as at",
    );
    process.kill(ready.pid as number, "SIGKILL");
    const { died_at: diedAt, death } = await database.untilStatus(replicaId ?? "", "dead", 30_000);
    const { startedAt } = await eventually(() => database.everbeat.tasks.show(id), {
      until: ({ state, attempt }) => state === "running" && attempt === kill + 2,
      within: 30_000,
    });
    kills.push({
      verdictMs: Number(diedAt) - Number(killedAt),
      runningAgainMs: Number(startedAt) - Number(killedAt),
      because: death?.["because"],
    });
    // The next kill finds another worker that could take over, as this one did.
    await supervisor.said({ event: "child.ready" }, { after: PROCESSES + kill });
  }
  const summary = { kills: KILLS, ...percentiles(kills.map(({ verdictMs }) => verdictMs)) };
  const folder = new URL("results/", import.meta.url);
  await mkdir(folder, { recursive: true });
  await writeFile(new URL("supervised-kills.json", folder), `${JSON.stringify({ ...summary, raw: kills }, null, 1)}\n`);
  console.log(summary, "running again:", percentiles(kills.map(({ runningAgainMs }) => runningAgainMs)));
  expect(new Set(kills.map(({ because }) => because))).toEqual(new Set(["exited"]));
  expect(summary.p99).toBeLessThanOrEqual(300);
});

function percentiles(times: readonly number[]): { p50: number; p99: number; max: number } {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
  return { p50: at(0.5), p99: at(0.99), max: sorted.at(-1) ?? 0 };
}

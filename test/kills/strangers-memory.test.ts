/**
 * A worker in a container with programs that are none of ours, and a task that is alone there. The kernel kills the largest process of the container.
 * Where another program has grown, the task is not charged; where the task has grown, it is.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { type MemoryCgroup, memoryCgroup, noMemoryCgroup } from "../support/memory-cgroup.ts";
import { startRunnerWorker, task } from "../support/runner-worker.ts";
import { startSupervisor, task as supervised, untilReady } from "../support/supervisor.ts";

vi.setConfig({ testTimeout: 180_000 });

const without = noMemoryCgroup();
if (without !== undefined) console.warn(`not tested: ${without}`);

const MIB = 1_048_576;
const LIMIT = 500 * MIB;

/** Several, of which none is as large as the worker. They grow from when they are told to. */
function strangersIn(cgroup: MemoryCgroup): readonly ChildProcess[] {
  const script = `const held = [];
    process.stdin.once("data", () => setInterval(() => held.push(Buffer.alloc(${MIB} / 2, 1)), 10));`;
  const strangers = Array.from({ length: 4 }, () =>
    spawn(process.execPath, ["-e", script], { stdio: ["pipe", "ignore", "inherit"] }),
  );
  onTestFinished(() => void end(strangers));
  for (const { pid } of strangers) cgroup.add(pid as number);
  return strangers;
}

async function end(processes: readonly ChildProcess[]): Promise<void> {
  await Promise.all(
    processes.map(async (each) => {
      if (each.exitCode !== null || each.signalCode !== null) return;
      const exited = once(each, "exit");
      each.kill("SIGKILL");
      await exited;
    }),
  );
}

/** With all processes that it has started. */
function addAll(cgroup: MemoryCgroup, pid: number): void {
  cgroup.add(pid);
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const children = readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8");
    for (const child of children.split(" ").filter(Boolean)) addAll(cgroup, Number(child));
  }
}

const untilRunning = ({ everbeat }: CrashDatabase, id: string, attempt: number) =>
  eventually(() => everbeat.tasks.show(id), {
    until: (shown) => shown.endedAt !== null || (shown.state === "running" && shown.attempt === attempt),
    ...{ within: 60_000, what: `attempt ${attempt}` },
  });

/** It has at least that much, and has not grown for so long that whoever looks at it twice a second has seen that. */
async function untilSteady(cgroup: MemoryCgroup, bytes: number): Promise<void> {
  let [used, looks] = [0, 0];
  const look = () => {
    const now = cgroup.used();
    const isSteady = now > bytes && Math.abs(now - used) < 10 * MIB;
    looks = isSteady ? looks + 1 : 0;
    if (!isSteady) used = now;
    return looks;
  };
  await eventually(look, { until: (steady) => steady > 20, within: 60_000, every: 100, what: "memory that stays" });
}

/** Where the task of the worker is told to hold its memory, and where it is to grow without an end. */
interface Place {
  hold(): Promise<string>;
  grow(ms: number): Promise<string>;
}

const PLACES: readonly [string, (database: CrashDatabase, cgroup: MemoryCgroup) => Promise<Place>][] = [
  [
    "the only child of a supervisor",
    async ({ url, everbeat }, cgroup) => {
      const supervisor = await startSupervisor({ url, processes: 1, arguments: ["--healthy-after", "100ms"] });
      await untilReady(supervisor, 1);
      addAll(cgroup, supervisor.pid);
      return {
        hold: () => everbeat.enqueue(supervised("keep"), { mib: 180 }),
        grow: (ms) => everbeat.enqueue(supervised("fill"), { ms }),
      };
    },
  ],
  [
    "a runner of a worker",
    async ({ url, everbeat }, cgroup) => {
      const tasks = [
        { handler: "holdMemory", runIn: "process", onCrash: "requeue" },
        { handler: "growForEver", runIn: "process", onCrash: "requeue" },
      ] as const;
      const worker = await startRunnerWorker({ url, tasks, work: { runners: { processes: 1 } } });
      await worker.heard({ event: "runner.started" });
      addAll(cgroup, worker.pid);
      onTestFinished(() => worker.kill());
      const until = join(tmpdir(), "everbeat-never");
      return {
        hold: () => everbeat.enqueue(task("holdMemory"), { megabytes: 180, until }),
        grow: (ms) => everbeat.enqueue(task("growForEver"), { ms }),
      };
    },
  ],
];

describe.skipIf(without !== undefined).each(PLACES)("a task that is alone, in %s,", (_, open) => {
  test("is never charged with a kill for memory that others have taken", async () => {
    const database = await openCrashDatabase();
    const { everbeat } = database;
    const cgroup = memoryCgroup(LIMIT);
    const place = await open(database, cgroup);
    const id = await place.hold();
    for (let attempt = 1; attempt <= 3; attempt++) {
      expect(await untilRunning(database, id, attempt)).toMatchObject({ state: "running", attempt, crashes: 0 });
      // It has its memory, and nothing grows any more.
      await untilSteady(cgroup, 180 * MIB);
      const strangers = strangersIn(cgroup);
      for (const { stdin } of strangers) stdin?.write("grow\n");
      await eventually(() => everbeat.tasks.show(id), {
        ...{ until: ({ attempts }) => attempts[attempt - 1]?.outcome === "crashed", within: 60_000, what: "a kill" },
      });
      await end(strangers);
    }
    const shown = await untilRunning(database, id, 4);
    expect(shown).toMatchObject({ endedAt: null, crashes: 0 });
    expect(shown.attempts[0]?.error).toMatchObject({ probableCause: "out-of-memory", hasStrangers: true });
  });

  test.each([
    ["slowly", 30],
    ["at once", 0],
  ])("is in quarantine after three of them if it has grown itself, %s", async (_how, ms) => {
    const database = await openCrashDatabase();
    const cgroup = memoryCgroup(LIMIT);
    const place = await open(database, cgroup);
    strangersIn(cgroup);
    const id = await place.grow(ms);
    const shown = await eventually(() => database.everbeat.tasks.show(id), {
      ...{ until: ({ endedAt, attempt }) => endedAt !== null || attempt > 3, within: 120_000, what: "its end" },
    });
    expect(shown).toMatchObject({ attempt: 3, crashes: 3, error: { code: "POISONED" } });
  });
});

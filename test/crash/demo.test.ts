import { readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import type { DemoSummary } from "../../src/cli/demo/play.ts";
import { commandsToTerminal } from "../cli/printed.ts";
import { everbeat, startEverbeat } from "../cli/run-cli.ts";
import { eventually } from "../support/eventually.ts";

async function demoFolders(): Promise<string[]> {
  return (await readdir(tmpdir())).filter((name) => name.startsWith("everbeat-demo-"));
}

test("the demo tells its story, ends well and leaves nothing behind", { timeout: 180_000 }, async () => {
  const before = await demoFolders();
  const { code, stdout, stderr } = await everbeat(["demo", "--json"]);
  expect(stderr).toContain("kill -9: worker A dies");
  expect(stderr).toMatch(/later it is declared dead: its session ended/);
  expect(stderr).toMatch(/Declared dead after a silence of \d/);
  expect(commandsToTerminal(stderr)).toEqual([]);
  const summary = JSON.parse(stdout) as DemoSummary;
  if (stderr.includes("ended the process before it could do harm")) {
    // On a busy machine the frozen worker's heart may do that before anything of it could be refused; another takes its place.
    expect(summary.workersStarted).toBe(7);
  } else {
    expect(stderr).toMatch(/Refused: "completed" under claim \d+ came late/);
    expect(stderr).toContain("back under a new id");
    expect(summary).toMatchObject({ workersStarted: 6, lateRefused: 1 });
  }
  expect(summary).toMatchObject({ ok: true, lost: 0, endedTwice: 0, strangers: 0, workersKilled: 4, workersFrozen: 1 });
  expect(summary).toMatchObject({ runnersLost: 1, loopsBlocked: 1 });
  expect(stderr).toContain("The process ran out of JavaScript heap, of which it may have 48 MiB, and V8 aborted it.");
  expect(stderr).toMatch(/heap: \d+ of 48 MiB at its last beat/);
  expect(stderr).toMatch(/FATAL ERROR: .*heap out of memory/);
  expect(stderr).toMatch(
    /event loop has been blocked for [\d.]+m?s, in: at (isPrime|largestPrimeWithin) \(\w+\.js:\d+\)/,
  );
  expect(stderr).toMatch(/at (isPrime|largestPrimeWithin) \(.*\.js:\d+:\d+\)/);
  expect(stderr).toContain("The loop turns again, and the task has completed, at attempt 1.");
  expect(summary).toMatchObject({ quarantined: 1, poisonous: 1, completed: summary.accepted - 1 });
  expect(stderr.match(/dies in the middle of its tasks\. Which of them was it\?/g)).toHaveLength(3);
  expect(stderr).toMatch(/went into quarantine .* ago: it was running when 3 workers or runners died/);
  expect(summary.tasksTakenBack).toBeGreaterThan(1);
  expect(summary.crashKnownMs).toBeLessThan(10_000);
  expect(code).toBe(0);
  expect((await demoFolders()).filter((name) => !before.includes(name))).toEqual([]);
});

test("Ctrl-C in the middle of the demo takes its workers and its database along", { timeout: 120_000 }, async () => {
  const before = await demoFolders();
  const demo = startEverbeat(["demo"]);
  await demo.says("tasks of about 300 ms go in", 50_000);
  const processes = [...demo.stdout().matchAll(/process (\d+)/g)].map((match) => Number(match[1]));
  expect(processes).toHaveLength(2);
  demo.child.kill("SIGINT");
  const { code, stderr } = await demo.ended;
  expect(code).toBe(1);
  expect(stderr).toContain("stopped before its end");
  for (const pid of processes) await eventually(() => !isThere(pid), { what: `the end of ${pid}` });
  expect((await demoFolders()).filter((name) => !before.includes(name))).toEqual([]);
});

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

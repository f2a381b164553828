/** The disk under a worker's log is full, and gets room again: no task notices, and what was dropped is counted to the line. */
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { projectWith, startEverbeat } from "../cli/run-cli.ts";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { startOwnServer } from "../support/own-server.ts";
import { alertsOf, NUMBERING_TASK, numbering, numbersIn } from "../support/printing-tasks.ts";
import { mountSmallDisk } from "../support/small-disk.ts";

test("lines that a full disk refuses are counted, told once, and the alert is resolved when there is room", async () => {
  const { everbeat, url } = await openCrashDatabase({}, (await startOwnServer()).url);
  const disk = await mountSmallDisk(4);
  const path = join(disk.folder, "worker.log");
  const log = openSync(path, "a");
  onTestFinished(() => closeSync(log));
  const cwd = await projectWith({ "tasks.js": NUMBERING_TASK });
  const worker = startEverbeat(["start", "tasks.js", "--json"], { database: url, cwd, stderr: log });
  await worker.says("worker started");
  const print = async (from: number, lines: number) =>
    everbeat.result(await everbeat.enqueue(numbering, { from, lines }), { timeout: 30_000 });
  const alerts = () => alertsOf(everbeat);

  await print(0, 10);
  await disk.fill();
  // The first of them still fit into the last page of the file.
  await print(10, 1_000);
  await eventually(alerts, { until: ([first]) => first?.resolvedAt === null });
  await print(1_010, 1_000);
  await disk.clear();
  await print(2_010, 10);
  await worker.says("log.back", 30_000);
  const [alert, ...others] = await eventually(alerts, { until: ([first]) => first?.resolvedAt !== null });
  expect(alert?.message).toContain("no space left on the device (ENOSPC)");
  expect(others).toEqual([]);

  worker.child.kill("SIGTERM");
  const { code, stdout } = await worker.ended;
  expect(code).toBe(0);
  const events = stdout.split("\n").filter((line) => /"event":"log\.(dropped|back)"/.test(line));
  expect(events.map((line) => /log\.(?:dropped|back)/.exec(line)?.[0])).toEqual(["log.dropped", "log.back"]);
  const printed = numbersIn(readFileSync(path, "utf8"));
  expect(printed.length + Number(/"dropped":(\d+)/.exec(events[1] ?? "")?.[1])).toBe(2_020);
  expect(printed.slice(-10)).toEqual(Array.from({ length: 10 }, (_, line) => 2_010 + line));
});

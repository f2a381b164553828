/** What waits for a descriptor, on real pipes and files: bounded, in order, and counted to the line where it is dropped. */
import { closeSync, openSync } from "node:fs";
import { expect, onTestFinished, test, vi } from "vitest";
import { LogHealth } from "../../src/log-health.ts";
import { DescriptorQueue } from "../../src/outlet/descriptor-queue.ts";
import { eventually } from "../support/eventually.ts";
import { openPipe } from "../support/pipe.ts";

const MOST_WAITING = 1_048_576;

function queueTo(fd: number) {
  const health = new LogHealth();
  const onRoom = vi.fn();
  const queue = new DescriptorQueue({ fd, health, doNotBlock() {}, onRoom });
  return { health, onRoom, put: (text: string) => queue.put(Buffer.from(text)), flushed: () => queue.flushed() };
}

/** Lines of a hundred bytes, each with its number. */
const line = (number: number) => `${`line ${number} `.padEnd(99, ".")}\n`;

/** So many lines, at once; returns what the reader of a pipe must see in the end if nothing is lost. */
function putLines(put: (text: string) => boolean, lines: number): string[] {
  const all = Array.from({ length: lines }, (_, number) => line(number));
  for (const each of all) put(each);
  return all;
}

test("writes at once what the reader has room for, and asks nobody to wait", () => {
  const pipe = openPipe();
  const { put, health } = queueTo(pipe.writeEnd);
  expect(put("one\n")).toBe(true);
  expect(put("two\n")).toBe(true);
  expect(pipe.read()).toBe("one\ntwo\n");
  expect(health).toMatchObject({ dropped: 0, isWell: true });
});

test("keeps what the reader does not take yet, asks writers to wait, and tells them when there is room", async () => {
  const pipe = openPipe();
  const { put, health, onRoom, flushed } = queueTo(pipe.writeEnd);
  const lines = putLines(put, 2_000);
  expect(put("last\n")).toBe(false);
  onRoom.mockClear();
  let printed = "";
  await eventually(() => {
    printed += pipe.read();
    return printed.endsWith("last\n");
  });
  await flushed();
  expect(onRoom).toHaveBeenCalled();
  expect(printed).toBe(`${lines.join("")}last\n`);
  expect(health).toMatchObject({ dropped: 0, isWell: true });
});

test("drops whole lines beyond its bound, counts each, and goes on when the reader comes back", async () => {
  const pipe = openPipe();
  const { put, health, flushed } = queueTo(pipe.writeEnd);
  const lines = putLines(put, 30_000);
  expect(health).toMatchObject({ isWell: false, reason: "its reader does not read" });
  const { dropped } = health;
  let printed = "";
  await eventually(() => {
    const text = pipe.read();
    printed += text;
    return text === "" && health.isWell;
  });
  await flushed();
  printed += pipe.read();
  // The bound, and what the pipe itself holds, are all that is kept: the first lines, and none of them twice.
  expect(printed).toBe(lines.slice(0, 30_000 - dropped).join(""));
  expect(printed.length).toBeGreaterThan(MOST_WAITING);
  expect(printed.length).toBeLessThan(MOST_WAITING + 1_048_576);
  expect(put("again\n")).toBe(true);
  expect(pipe.read()).toBe("again\n");
  expect(health.dropped).toBe(dropped);
});

test("a loop that prints without a pause to a reader that is quick enough loses nothing", async () => {
  const pipe = openPipe();
  const { put, health } = queueTo(pipe.writeEnd);
  const lines = Array.from({ length: 30_000 }, (_, number) => line(number));
  let printed = "";
  // No timer can fire in this loop, and the pipe is full at its beginning.
  lines.forEach((each, number) => {
    put(each);
    if (number > 1_000 && number % 100 === 0) printed += pipe.read();
  });
  expect(health.dropped).toBe(0);
  await eventually(() => {
    printed += pipe.read();
    return printed.length === lines.join("").length;
  });
  expect(printed).toBe(lines.join(""));
});

test("is flushed when its reader stands still, holds no process, and loses nothing that was kept", async () => {
  const pipe = openPipe();
  const { put, health, flushed } = queueTo(pipe.writeEnd);
  const lines = putLines(put, 2_000);
  // Nobody reads: only a reader that stands still ends this.
  await flushed();
  expect(put("for nobody\n")).toBe(true);
  await expect(flushed()).resolves.toBeUndefined();
  expect(health.dropped).toBe(0);
  let printed = "";
  await eventually(() => {
    printed += pipe.read();
    return printed.endsWith("for nobody\n");
  });
  expect(printed).toBe(`${lines.join("")}for nobody\n`);
});

test("counts all that waits as dropped, with its reason, when the reader goes away", async () => {
  const pipe = openPipe();
  const { put, health, flushed } = queueTo(pipe.writeEnd);
  // At once, so that the pipe is full in the middle of a line.
  put(Array.from({ length: 2_000 }, (_, number) => line(number)).join(""));
  pipe.closeReader();
  await flushed();
  const { dropped } = health;
  expect(health).toMatchObject({ isWell: false, reason: "nobody reads it any more (EPIPE)" });
  // What the pipe had taken is in it still. The line in whose middle it was full was dropped.
  pipe.openReader();
  const whole = pipe.read().split("\n").slice(0, -1);
  expect(whole.length + dropped).toBe(2_000);
});

test("begins a line of its own after one whose end was dropped, and counts that end once", async () => {
  const pipe = openPipe();
  const { put, health, flushed } = queueTo(pipe.writeEnd);
  put(Array.from({ length: 2_000 }, (_, number) => line(number)).join(""));
  pipe.closeReader();
  await flushed();
  const before = health.dropped;
  put("one\ntwo\n");
  put("three\n");
  expect(health.dropped).toBe(before + 3);
  pipe.openReader();
  const cut = pipe.read();
  expect(cut).toMatch(/[^\n]$/);
  put("four\n");
  put("five\n");
  expect(pipe.read()).toBe("\nfour\nfive\n");
  expect(health).toMatchObject({ dropped: before + 3, isWell: true });
});

test("counts the lines of what a full disk does not take, and keeps none of them", async () => {
  const full = openSync("/dev/full", "w");
  onTestFinished(() => closeSync(full));
  const { put, health, flushed } = queueTo(full);
  expect(put("one\ntwo\n")).toBe(true);
  put("half a line");
  put("");
  await flushed();
  expect(health).toMatchObject({ dropped: 3, isWell: false, reason: "no space left on the device (ENOSPC)" });
});

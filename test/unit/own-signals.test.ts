/** Which calls are seen as code that tells its own worker to stop, and that a real signal is none of them. */
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { watchOwnSignals } from "../../src/runner/own-signals.ts";

let stops: boolean[];
let unwatch: () => void;
const before = [process.kill, process.emit];
const kept = process.kill.bind(process);

beforeEach(() => {
  stops = [];
  unwatch = watchOwnSignals((isForParent) => stops.push(isForParent));
});
afterEach(() => unwatch());

/** As a handler may set it up: from here on its listeners run in this asynchronous context. */
function listen(): Promise<unknown> {
  const ignore = () => {};
  process.on("SIGTERM", ignore);
  onTestFinished(() => void process.off("SIGTERM", ignore));
  return once(process, "SIGTERM");
}

describe("a stop of its own worker", () => {
  test.each<[string, () => void]>([
    ["process.kill()", () => process.kill(process.pid, "SIGTERM")],
    ["process.kill() by number", () => process.kill(process.pid, 15)],
    ["a process.kill() that was kept before anybody watched", () => kept(process.pid, "SIGTERM")],
    ["process.emit()", () => process.emit("SIGTERM", "SIGTERM")],
  ])("is seen once: %s", async (_, stop) => {
    const heard = listen();
    stop();
    await heard;
    expect(stops).toEqual([false]);
  });

  test("is not a real signal from somebody else, also where a handler has set up the listeners", async () => {
    const heard = listen();
    execFileSync("kill", ["-TERM", String(process.pid)]);
    await heard;
    expect(stops).toEqual([]);
  });

  test("is not another signal, a look whether the process is there, or a name that nobody listens to", () => {
    process.kill(process.pid, 0);
    process.emit("SIGTERM", "SIGTERM");
    process.emit("SIGWINCH", "SIGWINCH");
    expect(stops).toEqual([]);
  });
});

test("what was watched is as before when nobody watches any more", () => {
  expect([process.kill, process.emit]).not.toEqual(before);
  unwatch();
  expect([process.kill, process.emit]).toEqual(before);
});

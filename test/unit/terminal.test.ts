import { expect, test } from "vitest";
import { Terminal } from "../../src/terminal.ts";

function terminal(hasOwn = true) {
  const world = { hasOwn, now: 0 };
  return { world, terminal: new Terminal({ hasOwn: () => world.hasOwn, now: () => world.now }) };
}

test("a terminal that is gone is closing for ten seconds from when that was first seen", () => {
  const { world, terminal: ours } = terminal();
  world.now = 60_000;
  expect(ours.isClosing).toBe(false);
  world.hasOwn = false;
  expect(ours.isClosing).toBe(true);
  world.now = 69_999;
  expect(ours.isClosing).toBe(true);
  world.now = 70_000;
  expect(ours.isClosing).toBe(false);
});

test("where there was no terminal, none is closing", () => {
  expect(terminal(false).terminal.isClosing).toBe(false);
});

test("it is watched, so that a process that was left running without its terminal knows that it is long gone", async () => {
  const { world, terminal: ours } = terminal();
  const looked = new Promise<void>((resolve) => {
    const get = () => {
      resolve();
      return false;
    };
    Object.defineProperty(world, "hasOwn", { get });
  });
  const stop = ours.watch();
  // The interval is no reason for a process to stay.
  const stay = setInterval(() => {}, 100);
  await looked;
  clearInterval(stay);
  stop();
  world.now = 10_000;
  expect(ours.isClosing).toBe(false);
});

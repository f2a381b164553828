/** Which of many queues are shown: neither those that work nor those that are paused hide the others. */
import { expect, test } from "vitest";
import { leftOutWords, mostBusy } from "../../src/cli/queues-of-interest.ts";
import type { QueueRow } from "../../src/sql/queues.ts";

const idle: Omit<QueueRow, "name"> = {
  ...{ isPaused: false, trouble: null, concurrency: null, rateLimit: null },
  ...{ ready: 0, delayed: 0, parked: 0, claimed: 0, running: 0, oldestDueMs: null },
};

function queues(count: number, prefix: string, more: (n: number) => Partial<QueueRow> = () => ({})): QueueRow[] {
  return Array.from({ length: count }, (_, n) => ({ ...idle, name: `${prefix}-${n}`, ...more(n) }));
}

function countsOf(shown: readonly QueueRow[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { name } of shown) {
    const [prefix = ""] = name.split("-");
    counts[prefix] = (counts[prefix] ?? 0) + 1;
  }
  return counts;
}

const busy = (count: number) => queues(count, "busy", (n) => ({ ready: n + 1 }));
const paused = (count: number, ready = 0) => queues(count, "paused", () => ({ isPaused: true, ready }));
const limited = (count: number, ready = 0) => queues(count, "limited", () => ({ concurrency: 1, ready }));

test("paused queues are seen among hundreds that are busy, and have half of the lines at most", () => {
  expect(countsOf(mostBusy([...busy(300), ...paused(3)], 20))).toEqual({ busy: 17, paused: 3 });
  expect(countsOf(mostBusy([...busy(300), ...paused(300)], 20))).toEqual({ busy: 10, paused: 10 });
});

test("hundreds of paused queues do not hide those that are busy, however much waits in them", () => {
  expect(countsOf(mostBusy([...paused(300, 1_000), ...busy(4)], 20))).toEqual({ paused: 16, busy: 4 });
  expect(countsOf(mostBusy([...paused(300, 1_000), ...busy(40)], 20))).toEqual({ paused: 10, busy: 10 });
  expect(countsOf(mostBusy(paused(300, 1_000), 20))).toEqual({ paused: 20 });
});

test("a limited queue counts as busy while it has something to do, and comes after paused ones while it has not", () => {
  expect(countsOf(mostBusy([...limited(300, 5), ...paused(2)], 20))).toEqual({ limited: 18, paused: 2 });
  expect(countsOf(mostBusy([...limited(300), ...paused(2), ...busy(40)], 20))).toEqual({
    ...{ limited: 8, paused: 2, busy: 10 },
  });
});

test("those with the most to do come first, and idle ones only where there is room", () => {
  const all = [...queues(50, "idle"), ...busy(5), ...paused(1)];
  const shown = mostBusy(all, 8).map(({ name }) => name);
  expect(shown).toEqual([...["busy-4", "busy-3", "busy-2", "busy-1", "busy-0", "paused-0", "idle-0", "idle-1"]]);
  expect(mostBusy(all, 1).map(({ name }) => name)).toEqual(["busy-4"]);
  expect(mostBusy(all, 100)).toEqual(all);
});

test("it is said how many are left out, and what they are", () => {
  const words = (...all: QueueRow[]) => leftOutWords(all, []);
  expect(leftOutWords(busy(3), busy(3).slice(0, 0))).toBe("and 3 more: 3 with something to do");
  expect(words(...queues(1_997, "idle"))).toBe("and 1,997 more, idle");
  expect(words(...paused(11, 4), ...queues(1_969, "idle"))).toBe("and 1,980 more: 11 paused, the others idle");
  expect(words(...paused(1), ...limited(2), ...limited(3, 1), ...busy(4))).toBe(
    "and 10 more: 1 paused, 7 with something to do, 2 limited",
  );
  expect(leftOutWords([], [])).toBeUndefined();
});

/** Asking a busy thread where it is must not disturb what it does, nor hold it up for long. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test, vi } from "vitest";

vi.setConfig({ testTimeout: 60_000 });

async function probe(file: string, ...options: readonly string[]) {
  const path = fileURLToPath(new URL(`../support/${file}`, import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [path, ...options], { timeout: 20_000 });
  return stdout === "" ? undefined : JSON.parse(stdout);
}

test("a main thread that is asked hundreds of times where it is answers, and does what it does unharmed", async () => {
  const told = await probe("main-stack-probe.js");
  expect(told).toMatchObject({ wrong: [], isDisturbed: false, pauses: 0 });
  expect(told.withStack).toBeGreaterThan(100);
});

/** An answer takes longer than its thread is held up, and may wait for a processor besides: so the quickest quarter is looked at. */
describe.each(["main", "thread"])("the %s thread answers within a few milliseconds", (whose) => {
  test.each([5, 500])("%i calls deep", async (depth) => {
    const told = await probe("stack-pauses-probe.js", whose, String(depth));
    expect(told).toMatchObject({ pauses: 0, descended: depth });
    expect(told.asked).toBeGreaterThan(10);
    expect(told.quick).toBeLessThan(20);
    if (depth === 500) expect(Math.max(...told.frames)).toBe(30);
  });
});

// Without care about one in three of these hangs for ever: the question takes the thread's termination for an error of its own.
test("a process that ends while it asks one of its threads ends all the same", async () => {
  for (let run = 0; run < 12; run++) await probe("exit-while-asked-probe.js");
});

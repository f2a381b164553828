/** Asking a busy main thread where it is must not disturb what it does. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const PROBE = fileURLToPath(new URL("../support/main-stack-probe.js", import.meta.url));

test("a main thread that is asked hundreds of times where it is answers, and does what it does unharmed", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [PROBE], { timeout: 50_000 });
  const told = JSON.parse(stdout);
  expect(told).toMatchObject({ wrong: [], isDisturbed: false, pauses: 0 });
  expect(told.withStack).toBeGreaterThan(100);
});

/** The delays between attempts, as a definition writes them. */
import { expect, test } from "vitest";
import { defineTask, type RetryOptions } from "../../src/task/define-task.ts";
import { backoffMs, DEFAULT_RETRY } from "../../src/task/retry.ts";
import { settingsRecord } from "../../src/task/settings.ts";
import { storedSettings } from "../../src/task/stored-settings.ts";

const HOUR = 3_600_000;
test.each<[string, RetryOptions, number[]]>([
  ["a list", { backoff: ["6h", "1d"] }, [6 * HOUR, 24 * HOUR, 24 * HOUR]],
  ["a fixed delay", { backoff: "fixed", delay: "6h" }, [6 * HOUR, 6 * HOUR, 6 * HOUR]],
  ["a first delay", { delay: "6h" }, [6 * HOUR, 6 * HOUR, 6 * HOUR]],
  ["growth up to an hour", { delay: "20m" }, [HOUR / 3, (HOUR * 2) / 3, HOUR]],
  ["growth up to maxDelay", { delay: "6h", maxDelay: "10h" }, [6 * HOUR, 10 * HOUR, 10 * HOUR]],
  ["a maxDelay below the default delay", { backoff: "fixed", maxDelay: 300 }, [300, 300, 300]],
])("%s is obeyed as it was written, also by whoever reads the settings on record", (_what, retry, delays) => {
  const { settings } = defineTask({ name: "t", retry: { attempts: 9, jitter: 0, ...retry }, run: () => 1 });
  const onRecord = storedSettings(JSON.parse(JSON.stringify(settingsRecord(settings)))).retry;
  for (const policy of [settings.retry, onRecord ?? DEFAULT_RETRY])
    expect([1, 2, 3].map((failures) => backoffMs(failures, policy, 0.5))).toEqual(delays);
});

test.each<[RetryOptions, string]>([
  [{ delay: "6h", maxDelay: "1h" }, "retry.maxDelay: is less than delay (6h)"],
  [{ backoff: "fixed", delay: 300, maxDelay: 200 }, "retry.maxDelay: is less than delay (300ms)"],
  [{ backoff: ["1s", "1d"], maxDelay: "2h" }, "retry.maxDelay: is less than backoff[1] (1d)"],
])("a maxDelay below a delay that was written out is refused (%j)", (retry, problem) => {
  expect(() => defineTask({ name: "t", retry, run: () => 1 })).toThrow(problem);
});

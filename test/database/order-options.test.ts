/** What is asked of tasks, of queues and of recovery: every option is known, and every value makes sense, or the call is refused in our own words. */
import { describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const task = defineTask({ name: "ordered", run: (_input: unknown) => null });
const ID = "0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11";
const NO_UUID = "-".repeat(36);

/** The calls as they come from JavaScript, where nobody compares them with a type. */
type Call = (...given: unknown[]) => Promise<unknown>;
const of = (method: unknown, self: object): Call => (method as (...given: unknown[]) => Promise<unknown>).bind(self);
const { tasks, recovery, queues } = everbeat;
const retry = of(tasks.retry, tasks);
const reportExit = of(recovery.reportExit, recovery);
const alerts = of(everbeat.alerts.list, everbeat.alerts);

describe("a call is refused", () => {
  test.each<[string, () => Promise<unknown>, string]>([
    ["retry", () => retry(ID, { forse: true }), 'options.forse: there is no such option; did you mean "force"?'],
    ["retry", () => retry(ID, { force: 1 }), "options.force: must be true or false, not 1"],
    ["retry", () => retry(ID, null), "options: must be an object, not null"],
    [
      "cancel",
      () => of(tasks.cancel, tasks)(ID, { resaon: "x" }),
      "options.resaon: there is no such option; did you mean",
    ],
    ["list", () => of(tasks.list, tasks)({ nam: "x" }), 'nam: there is no such option; did you mean "name"?'],
    ["list", () => tasks.list({ replicaId: NO_UUID }), "replicaId: must be a replica's id (a UUID), not"],
    ["alerts", () => alerts({ opne: false }), 'opne: there is no such option; did you mean "open"?'],
    ["alerts", () => alerts({ limit: "x" }), "limit: must be a whole number from 1 to 10000, not"],
    ["alerts", () => alerts(null), "must be an object, not null"],
    ["findStale", () => recovery.findStale({ ids: [NO_UUID] }), "ids[0]: must be a task's id (a UUID), not"],
    ["findStale", () => recovery.findStale({ replicaId: NO_UUID }), "replicaId: must be a replica's id (a UUID), not"],
    ["review.list", () => recovery.review.list({ ids: [NO_UUID] }), "ids[0]: must be a task's id (a UUID), not"],
    ["review.done", () => recovery.review.done([NO_UUID]), "ids[0]: must be a task's id (a UUID), not"],
    [
      "quarantine.list",
      () => recovery.quarantine.list({ ids: [NO_UUID] }),
      "ids[0]: must be a task's id (a UUID), not",
    ],
    ["queues.set", () => of(queues.set, queues)("q", { concurency: 1 }), 'did you mean "concurrency"?'],
    [
      "reportExit",
      () => reportExit(ID, { signal: "SIGKIL" }),
      'signal: there is no such signal; did you mean "SIGKILL"?',
    ],
    [
      "reportExit",
      () => reportExit(ID, { signal: "sigterm" }),
      'signal: there is no such signal; did you mean "SIGTERM"?',
    ],
    [
      "reportExit",
      () => reportExit(ID, { signal: "SIGNOTHING" }),
      "signal: there is no such signal; known are SIGABRT, ",
    ],
    [
      "reportExit",
      () => reportExit(ID, { signal: 9 }),
      'signal: must be the name of a signal, such as "SIGKILL", not 9',
    ],
    [
      "reportExit",
      () => reportExit(ID, { exitcode: 1 }),
      'exitcode: there is no such option; did you mean "exitCode"?',
    ],
    ["reportExit", () => reportExit(ID, "SIGKILL"), 'must be an object, not "SIGKILL"'],
    ["result", () => of(everbeat.result, everbeat)(ID, { signal: "SIGTERM" }), "signal: must be an AbortSignal, not"],
  ])("%s: %s", async (_call, call, words) => {
    await expect(call()).rejects.toMatchObject({ code: "INVALID_OPTIONS", message: expect.stringContaining(words) });
  });
});

test.each([null, undefined, 5])("a choice of tasks that is %j is one problem", async (which) => {
  await expect(retry(which)).rejects.toMatchObject({ code: "INVALID_OPTIONS", problems: [expect.anything()] });
});

test.each(["SIGKILL", "SIGSTKFLT", "SIGINFO", "SIGRTMIN+3", null, undefined])(
  "an exit by %s is taken",
  async (signal) => {
    expect(await recovery.reportExit(ID, { signal: signal as string | null })).toMatchObject({ verdict: "not-alive" });
  },
);

test.each(["a\0b", "a\ud800b"])(
  "a key that cannot be stored (%j) is refused before anything is written",
  async (key) => {
    const count = () => database.query("select count(*) from everbeat.task");
    const before = await count();
    for (const options of [
      { uniqueKey: key },
      { exclusiveKey: key },
      { rateLimit: { key, limit: 1, per: 1 } },
      { queue: key },
    ]) {
      const refusal = { code: "INVALID_OPTIONS", message: expect.stringContaining("PostgreSQL cannot store as text") };
      await expect(everbeat.enqueue(task, 1, options)).rejects.toMatchObject(refusal);
      await expect(everbeat.enqueueMany(task, [1, 2], { options })).rejects.toMatchObject(refusal);
      await expect(
        everbeat.enqueueMany(task, [1, 2], { options: (_, index) => (index ? options : {}) }),
      ).rejects.toMatchObject(refusal);
    }
    expect(await count()).toEqual(before);
  },
);

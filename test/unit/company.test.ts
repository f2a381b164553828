/** Who is a suspect when the kernel kills a runner for memory that others share. */
import { describe, expect, test } from "vitest";
import { evidenceLines } from "../../src/recovery/death-evidence.ts";
import { unchargedWords } from "../../src/recovery/uncharged-words.ts";
import type { RunnerDeath } from "../../src/runner/runner-death.ts";
import { defineTask } from "../../src/task/define-task.ts";
import type { ClaimId, ReplicaId, TaskId } from "../../src/task/ids.ts";
import { CompanyWatch, NOBODY } from "../../src/worker/company.ts";
import { runnerCrashOutcomeOf } from "../../src/worker/crash-outcome.ts";
import { runnerEvidence } from "../../src/worker/runner-evidence.ts";

const id = (name: string) => name as TaskId;
const steady = id("steady");
const DEATH: RunnerDeath = {
  ...{ runnerId: "r1", kind: "process", pid: 7, hostname: "box", because: "exited", exitCode: null, signal: "SIGKILL" },
  ...{ message: undefined, stack: undefined, livedMs: 1, silentForMs: 1, vitals: undefined, earlier: undefined },
  ...{ heapLimitMb: undefined, stderrTail: "", before: { count: 0, last: [], again: [] } },
  attempts: [{ taskId: steady, claimId: "1" as ClaimId, name: "steady", attempt: 1 }],
  group: { used: 50, limit: 100, kills: 1 },
};
/** A beat ago, with the same limit as its group. */
const holding = (rss: number, before = rss): Partial<RunnerDeath> => ({
  ...{ silentForMs: 500, vitals: { rss, memoryLimit: 100 } },
  earlier: { agoMs: 1_000, vitals: { rss: before, memoryLimit: 100 } },
});
const watching = (...atWork: string[]) => new CompanyWatch(() => atWork.map(id));

describe("beside a runner that the kernel killed for its memory", () => {
  test("everybody who is at work in the worker is a suspect, and the killed one is not beside itself", () => {
    expect(watching("steady", "hog").companyOf(DEATH, 0)).toEqual({
      ...{ inWorker: ["hog"], hasJustEnded: false, hasStrangers: true },
    });
    expect(watching("steady").companyOf({ ...DEATH }, 0)).toEqual({ ...NOBODY, hasStrangers: true });
  });

  test("it is asked once who was there: the answer for its post-mortem is that for its attempts", () => {
    const atWork = [steady, id("hog")];
    const watch = new CompanyWatch(() => atWork);
    const company = watch.companyOf(DEATH, 0);
    atWork.pop();
    expect(watch.companyOf(DEATH, 5_000)).toEqual(company);
    expect(watch.companyOf({ ...DEATH }, 5_000)).toEqual({ ...NOBODY, hasStrangers: true });
  });

  test("so is who was there a moment ago: one that has ended since, and one whose runner was killed as well", () => {
    const watch = watching("steady");
    watch.noteEnd(id("hog"), false, 0);
    watch.noteEnd(id("neighbour"), true, 0);
    watch.noteEnd(steady, true, 0);
    expect(watch.companyOf(DEATH, 900)).toMatchObject({ inWorker: ["neighbour"], hasJustEnded: true });
    expect(watch.companyOf({ ...DEATH }, 1_000)).toEqual({ ...NOBODY, hasStrangers: true });
  });

  test.each<[string, Partial<RunnerDeath>, boolean]>([
    ["the kernel counted a kill", {}, true],
    ["the group was full", { group: { used: 90, limit: 100, kills: 0 } }, true],
    ["the group had room, and nobody was killed for memory", { group: { used: 89, limit: 100, kills: 0 } }, false],
    ["its own memory was less than what fills the limit", holding(89), true],
    ["it had grown fast, and may have been about to stop", holding(60, 10), true],
    ["it filled the limit by itself, and the kernel counted a kill", holding(90), false],
    ["it filled the limit by itself", { ...holding(95), group: { used: 100, limit: 100, kills: 0 } }, false],
    ["there is no limit that is shared", { group: undefined }, false],
    ["it was another signal", { signal: "SIGSEGV" }, false],
    ["its worker has killed it", { because: "garbled" }, false],
  ])("%s: %o", (_what, given, isShared) => {
    const { inWorker } = watching("steady", "hog").companyOf({ ...DEATH, ...given }, 0);
    expect(inWorker).toEqual(isShared ? ["hog"] : []);
  });
});

describe("a task whose runner was killed for its memory", () => {
  const { settings } = defineTask({ name: "steady", onCrash: "requeue", run: () => {} });
  const policy = { requeuesClaimed: true, recoversRunning: true, crashBudget: 3 };
  const outcome = (company: typeof NOBODY, suspicion: number, death: RunnerDeath = DEATH) =>
    runnerCrashOutcomeOf(
      {
        ...{ ref: { claim: "1" as ClaimId, task: steady, replica: "r" as ReplicaId } },
        ...{ crashes: 0, suspicion, completedInTransaction: false },
      },
      { death, company },
      { settings, policy, random: 0 },
    );

  test("is not charged beside others, however often, and they are suspects too", () => {
    const company = { inWorker: [id("hog")], hasJustEnded: true, hasStrangers: true };
    for (const suspicion of [0, 1, 2, 7])
      expect(outcome(company, suspicion)).toMatchObject({
        ...{ to: "pending", crashes: 0 },
        crash: { id: "r1", suspects: 3, isApart: suspicion > 0, others: ["hog"] },
      });
  });

  test("is charged where nothing else ran in its worker, and convicted by its budget", () => {
    expect(outcome(NOBODY, 0)).toMatchObject({ to: "pending", crashes: 1 });
    expect(outcome(NOBODY, 2)).toMatchObject({ to: "failed", crashes: 3, isConvicted: true });
  });

  test("is not charged where only processes that are none of ours may have taken the memory, however often", () => {
    const company = watching("steady").companyOf(DEATH, 0);
    for (const suspicion of [0, 1, 2, 7]) {
      const told = outcome(company, suspicion);
      expect(told).toMatchObject({ to: "pending", crashes: 0, crash: { id: "r1" } });
      expect(unchargedWords(told.error)).toContain("was not seen to be what grew");
    }
  });

  test("is convicted by its budget where it was seen to be what grew", () => {
    const death = { ...DEATH, group: { used: 50, limit: 100, kills: 1, grewMost: true } };
    const company = watching("steady").companyOf(death, 0);
    expect(outcome(company, 0, death)).toMatchObject({ to: "pending", crashes: 1 });
    expect(outcome(company, 2, death)).toMatchObject({ to: "failed", crashes: 3, isConvicted: true });
  });

  test("is convicted by its budget on a busy worker too, where it filled the limit by itself", () => {
    const death = { ...DEATH, ...holding(95) };
    const company = watching("steady", "hog", "neighbour").companyOf(death, 0);
    expect(outcome(company, 0, death)).toMatchObject({ to: "pending", crashes: 1 });
    const convicted = outcome(company, 2, death);
    expect(convicted).toMatchObject({ to: "failed", crashes: 3, isConvicted: true, error: { code: "POISONED" } });
    expect(convicted.error?.message).toContain("killed for its memory");
    expect(convicted.error?.message).not.toContain("need not be the one that grew");
    expect(evidenceLines(runnerEvidence(death, company)).join()).not.toContain("suspect");
  });

  test("says in its error who else was there, so that it is known why it is not charged", () => {
    const company = { inWorker: [id("hog")], hasJustEnded: true, hasStrangers: true };
    expect(outcome(company, 0).error).toMatchObject({ inWorker: 2 });
    expect(unchargedWords(outcome(company, 0).error)).toContain("2 other tasks ran elsewhere in its worker");
    expect(unchargedWords(outcome(NOBODY, 0).error)).toBeUndefined();
  });

  test("is told what is known, and who else was there", () => {
    expect(outcome(NOBODY, 0).error?.message).toContain("which need not be the one that grew.");
    const hog = { inWorker: [id("hog")], hasJustEnded: true, hasStrangers: true };
    const lines = evidenceLines(runnerEvidence(DEATH, hog));
    expect(lines).toContain("beside it, its worker ran 2 other tasks within the same limit");
    expect(lines).toContain("nobody is charged with its end: each of these tasks is a suspect");
    expect(evidenceLines(runnerEvidence(DEATH, NOBODY)).join()).not.toContain("suspect");
  });
});

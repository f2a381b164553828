/** The golden texts: how a task whose worker died is explained, for every cause of death. */
import { expect, test } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery } from "../../src/config/recovery-options.ts";
import { timedOutOutcome } from "../../src/heart/timed-out.ts";
import { explain } from "../../src/recovery/explain.ts";
import { probableCause } from "../../src/recovery/probable-cause.ts";
import { crashError, type Death } from "../../src/recovery/recovery-action.ts";
import type { TaskFacts } from "../../src/sql/explain-task.ts";
import { toErrorRecord } from "../../src/task/error-record.ts";
import { TaskTimedOutError, WorkerStoppingError } from "../../src/task/errors.ts";
import type { ClaimId, ReplicaId, TaskId } from "../../src/task/ids.ts";
import { DEFAULT_RETRY } from "../../src/task/retry.ts";
import { DEATHS } from "../support/deaths.ts";
import { explanationText } from "../support/explanation-text.ts";

const settings = checkRecovery({}, new Problems());

const ended: TaskFacts = {
  ...{ id: "task-1" as TaskId, name: "resize", queue: "images", state: "failed", attempt: 1, failures: 0, crashes: 1 },
  ...{ claimId: "7" as ClaimId, isParked: false, dueInMs: -5, expiresInMs: null, heldForMs: null, endedAgoMs: 2_000 },
  ...{ tookMs: 4_200, error: null, cancelForceInMs: null, late: [], ahead: 0, definition: null, key: null, last: null },
  rate: null,
  ...{ owner: null, review: null, suspicion: 0, isApart: false, postMortem: null, settings: null },
  ...{ progress: null, quietForMs: null },
  queueIs: { isPaused: false, trouble: null, concurrency: null, limited: 0, rateLimit: null, rateInMs: null },
  workers: { online: 2, knowing: 2, serving: 1, inHand: 3 },
  listening: { sweptAgoMs: 100, hearingForMs: 60_000, heldForMs: null, isConfirmed: false, isByOwner: false },
};

function deathOf(evidence: (typeof DEATHS)[number][2]): Death {
  const { because, silentForMs, exitCode, signal } = evidence;
  const { cause, sentence } = probableCause(evidence);
  return {
    ...{ replicaId: "replica-1", machineId: "m", hostname: "host-7", because, silentForMs, exitCode, signal },
    ...{ vitals: undefined, probableCause: cause, sentence },
  };
}

const failed = (evidence: (typeof DEATHS)[number][2]): string => {
  const death = deathOf(evidence);
  const error = crashError(death, { kind: "fail", crashes: 1, because: "on-crash" });
  return explanationText(
    explain({ ...ended, error, postMortem: { id: "9", sentence: death.sentence ?? "" } }, settings),
  );
};

test("a task whose worker died is explained by what it died of", async () => {
  const texts = DEATHS.map(([what, cause, evidence]) => `${what} (${cause})\n\n${failed(evidence)}`);
  await expect(`${texts.join("\n\n\n")}\n`).toMatchFileSnapshot("golden/explain-deaths.txt");
});

test("a suspect, one at its last chance and one in quarantine are explained", async () => {
  const [, , evidence] = DEATHS[0] ?? [];
  if (!evidence) throw new Error("there must be a death");
  const death = deathOf(evidence);
  const error = crashError(death, { kind: "again", crashes: 0, delayMs: 0, isApart: false });
  const postMortem = { id: "9", sentence: death.sentence ?? "" };
  const pending: TaskFacts = {
    ...{ ...ended, state: "pending", endedAgoMs: null, claimId: null, crashes: 0, suspicion: 1, postMortem },
    last: { outcome: "crashed", attempt: 1, endedAgoMs: 400, error },
  };
  const poisoned = crashError(death, { kind: "fail", crashes: 3, because: "crash-budget" });
  const texts = [
    ["suspected, and due again", explain(pending, settings)],
    ["suspected, in its backoff", explain({ ...pending, dueInMs: 900 }, settings)],
    ["at its last chance", explain({ ...pending, attempt: 2, suspicion: 2, isApart: true, dueInMs: 120 }, settings)],
    ["in quarantine", explain({ ...ended, attempt: 3, crashes: 3, error: poisoned, postMortem }, settings)],
  ] as const;
  const golden = texts.map(([what, told]) => `${what} (${told.because})\n\n${explanationText(told)}`).join("\n\n\n");
  await expect(`${golden}\n`).toMatchFileSnapshot("golden/explain-suspects.txt");
});

test("a crash of which nobody is convicted is explained by whoever else may have caused it", () => {
  const death = deathOf({ kind: "runner", because: "exited", exitCode: 3 });
  const runner = { id: "r", kind: "process", pid: 9, exitCode: 3, signal: null, what: "its runner ended" } as const;
  const evidenceOn = (told: Partial<Death>, crashes = 0) => {
    const error = crashError({ ...death, ...told }, { kind: "fail", crashes, because: "on-crash" });
    return explain({ ...ended, crashes, error }, settings).evidence.filter((line) => line.startsWith("no crash"));
  };
  expect(evidenceOn({ runner, before: 1 })).toEqual([
    "no crash is charged: its runner had run 1 task before it, which may have left something behind",
  ]);
  expect(evidenceOn({ runner, before: 7, inRunner: 2 })).toEqual([
    "no crash is charged: its runner had run 7 tasks before it, which may have left something behind, and 2 other tasks ran in the same runner",
  ]);
  expect(evidenceOn({ runner, inWorker: 3 })).toEqual([
    "no crash is charged: 3 other tasks ran elsewhere in its worker, within the same memory limit",
  ]);
  expect(evidenceOn({ withinLimit: 3 })).toEqual([
    "no crash is charged: 3 other tasks ran, or had just run, in the workers that share its memory limit",
  ]);
  expect(evidenceOn({ inWorker: 1 })).toEqual(["no crash is charged: 1 other task ran in the same worker"]);
  expect(evidenceOn({ inWorker: 1, wasDraining: true })).toEqual([
    "no crash is charged: its worker had been told to go",
  ]);
  expect(evidenceOn({ runner }, 1)).toEqual([]);
});

test("a runner that died is not called a worker, nor are several deaths those of workers alone", () => {
  const death = deathOf({ kind: "runner", because: "exited", exitCode: 3 });
  const runner = { id: "r", kind: "process", pid: 9, exitCode: 3, signal: null, what: "its runner ended" } as const;
  const poisoned = (crashes: number, told: Partial<Death>) => {
    const error = crashError({ ...death, ...told }, { kind: "fail", crashes, because: "crash-budget" });
    return [error.message, explain({ ...ended, crashes, error }, settings).summary];
  };
  for (const text of poisoned(1, { runner })) expect(text).toMatch(/was running when a runner died,/);
  for (const text of poisoned(1, {})) expect(text).toMatch(/was running when a worker died,/);
  for (const text of poisoned(3, { runner })) expect(text).toMatch(/was running when 3 workers or runners died,/);
  const error = crashError({ ...death, runner }, { kind: "again", crashes: 0, delayMs: 0, isApart: true });
  const last = { outcome: "crashed", attempt: 2, endedAgoMs: 5, error } as const;
  const pending: TaskFacts = { ...ended, state: "pending", endedAgoMs: null, claimId: null, last, suspicion: 1 };
  expect(explain({ ...pending, dueInMs: 900 }, settings).summary).toContain("its runner died in attempt 2");
  expect(explain({ ...pending, isApart: true }, settings).summary).toContain(
    "workers or runners died, so it runs apart",
  );
});

test("a task that never ends by itself is explained by how it was stopped, and one whose worker left by where it waits", async () => {
  const { taskId, claimId } = { taskId: "task-1" as TaskId, claimId: "7" as ClaimId };
  const timedOut = toErrorRecord(new TaskTimedOutError(taskId, 2_000));
  const blocked = timedOutOutcome({
    claim: { claimId, taskId, failures: 0, retry: { ...DEFAULT_RETRY, attempts: 1 } } as never,
    deadline: { timeoutMs: 2_000, isWorthRetrying: true },
    ...{ replicaId: "replica-1" as ReplicaId, stack: "at fib (/srv/tasks.ts:12:3)", random: 0 },
  });
  const left = toErrorRecord(new WorkerStoppingError(taskId));
  const pending = { ...ended, state: "pending", endedAgoMs: null, claimId: null, crashes: 0 } as const;
  const texts = [
    ["an endless loop or a wait in a thread or a process", { ...ended, crashes: 0, failures: 1, error: timedOut }],
    [
      "an endless loop on its worker's main thread",
      { ...ended, crashes: 0, failures: 1, error: blocked.error ?? null },
    ],
    [
      "its worker left, as in a rolling restart",
      { ...pending, last: { outcome: "aborted", attempt: 1, endedAgoMs: 50, error: left } },
    ],
  ] as const;
  const golden = texts.map(([what, facts]) => `${what}\n\n${explanationText(explain(facts as TaskFacts, settings))}`);
  await expect(`${golden.join("\n\n\n").replaceAll(/\n *at .*/g, "")}\n`).toMatchFileSnapshot(
    "golden/explain-stopped.txt",
  );
});

/** What is known about the end of a runner, as a post-mortem takes it. Pure. */
import type { DeathEvidence } from "../recovery/death-evidence.ts";
import type { RunnerDeath } from "../runner/runner-death.ts";
import { type Company, countOf } from "./company.ts";
import { runnerMemory } from "./runner-memory.ts";

const MIB = 1_048_576;

export function runnerEvidence(death: RunnerDeath, company: Company): DeathEvidence {
  const { because, exitCode, signal, livedMs, silentForMs, vitals, heapLimitMb, stack, stderrTail, message } = death;
  const lines = [...stderrTail.split("\n"), ...(message === undefined ? [] : [message])];
  const { heapUsed, loopP99Ms, blockedForMs } = vitals ?? {};
  return {
    ...{ kind: "runner", exitCode, signal, livedForMs: livedMs, loopP99Ms, blockedForMs },
    isThread: death.kind === "thread",
    because: because === "silent" ? "runner-silent" : "runner-ended",
    silentForMs: because === "silent" ? silentForMs : undefined,
    memory: runnerMemory(death),
    heap: heapLimitMb === undefined ? undefined : { used: heapUsed, limit: heapLimitMb * MIB },
    group: death.group,
    stack,
    running: death.attempts.length,
    inWorker: countOf(company),
    before: { count: death.before.count, last: death.before.last.map(({ name, taskId }) => `${name} ${taskId}`) },
    stderr: lines.filter((line) => line.trim() !== ""),
  };
}

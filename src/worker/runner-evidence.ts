/** What is known about the end of a runner, as a post-mortem takes it. Pure. */
import type { DeathEvidence } from "../recovery/death-evidence.ts";
import { memoryOutlook } from "../recovery/memory-outlook.ts";
import type { RunnerDeath } from "../runner/runner-death.ts";

export function runnerEvidence(death: RunnerDeath): DeathEvidence {
  const { because, exitCode, signal, livedMs, silentForMs, vitals, stderrTail, message } = death;
  const lines = [...stderrTail.split("\n"), ...(message === undefined ? [] : [message])];
  const { rss, memoryLimit = 0, loopP99Ms, blockedForMs } = vitals ?? {};
  return {
    ...{ kind: "runner", exitCode, signal, livedForMs: livedMs, loopP99Ms, blockedForMs },
    because: because === "silent" ? "runner-silent" : "runner-ended",
    silentForMs: because === "silent" ? silentForMs : undefined,
    memory: rss === undefined ? undefined : memoryOutlook([{ agoMs: silentForMs, rss, limit: memoryLimit }]),
    stderr: lines.filter((line) => line.trim() !== ""),
  };
}

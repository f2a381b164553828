/** How a replica's heart is doing, in a few words. */
import { formatDuration } from "../config/duration.ts";
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { ReplicaRow, ReplicaWithHeart } from "../index.ts";
import { shortCauseOf } from "../recovery/recovery-action.ts";
import { readDeath } from "../task/death.ts";

const MIB = 1_048_576;

export function heartWords(replica: ReplicaWithHeart, settings: RecoverySettings): string {
  switch (replica.heart) {
    case "fresh":
      return replica.hasSession || settings.sessionGraceMs === undefined ? "fresh" : "fresh, without a session";
    case "blocked":
      return `loop blocked for ${formatDuration(replica.vitals?.["blockedForMs"] ?? 0)}`;
    case "session-lost":
      return replica.sessionFreeForMs === null
        ? "session gone"
        : `session gone for ${formatDuration(replica.sessionFreeForMs)}`;
    case "stale":
      return "stale";
    case "dying":
      return "dead, not declared yet";
    case "unheard":
      return "nobody listens";
    case "dead":
      return shortCauseOf(readDeath(replica.death));
    case "offline":
      return "";
  }
}

/** Memory against its limit, the loop's delay, the cores in use, as of the last beat. */
export function vitalsWords({ vitals, status }: ReplicaRow): string {
  if (!vitals || status === "offline") return "";
  const { rss = 0, memoryLimit = 0, loopP99Ms = 0, cpu = 0 } = vitals;
  const memory = `${Math.round(rss / MIB)} of ${Math.round(memoryLimit / MIB)} MiB`;
  return `${memory}, loop p99 ${Math.round(loopP99Ms)} ms, cpu ${cpu.toFixed(1)}`;
}

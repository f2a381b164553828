/** Workers that hold tasks and may be dead, from whom nothing may be taken yet: what is said of them where nothing is stale. */
import { formatDuration } from "../config/duration.ts";
import type { ReplicaWithHeart } from "../index.ts";
import { unheardAfterMs } from "../recovery/limits.ts";

/** Undefined where there is none. `afterMs`: the silence that was asked for. */
export function notYetStaleWords(replicas: readonly ReplicaWithHeart[], afterMs = 0): string | undefined {
  return lostSessionWords(replicas) ?? silentWords(replicas, afterMs);
}

/** As `status` shows them and `explain` says of their tasks. */
function lostSessionWords(replicas: readonly ReplicaWithHeart[]): string | undefined {
  const lost = replicas.filter(({ claimed, running, heart }) => claimed + running > 0 && heart === "session-lost");
  if (lost.length === 0) return undefined;
  const whose =
    lost.length === 1
      ? "a worker whose database session is gone, as it is when a process dies. Another worker declares it dead"
      : `${lost.length} workers whose database sessions are gone, as they are when processes die. Another worker declares them dead`;
  return `${tasksOf(lost)} held by ${whose} in a second or two; if none runs, nothing happens until one starts.`;
}

function silentWords(replicas: readonly ReplicaWithHeart[], afterMs: number): string | undefined {
  const silent = replicas.filter(
    (replica) =>
      replica.unheardSince === null &&
      replica.claimed + replica.running > 0 &&
      (replica.silentForMs ?? 0) > Math.max(afterMs, unheardAfterMs(replica)),
  );
  const longest = silent.reduce<ReplicaWithHeart | undefined>(
    (most, one) => ((one.silentForMs ?? 0) > (most?.silentForMs ?? 0) ? one : most),
    undefined,
  );
  if (!longest) return undefined;
  const workers = silent.length === 1 ? "a worker that has" : `${silent.length} workers that have`;
  const [silence, promise] = [longest.silentForMs ?? 0, longest.promiseMs ?? 0].map((ms) => formatDuration(ms));
  return `${tasksOf(silent)} held by ${workers} been silent for ${silence}. Nothing is taken before its heart has promised to have stopped: after ${promise}.`;
}

function tasksOf(replicas: readonly ReplicaWithHeart[]): string {
  const held = replicas.reduce((sum, { claimed, running }) => sum + claimed + running, 0);
  return held === 1 ? "1 task is" : `${held} tasks are`;
}

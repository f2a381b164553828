/** Workers that hold tasks and have been silent for a while, from whom nothing may be taken yet: what is said of them where nothing is stale. */
import { formatDuration } from "../config/duration.ts";
import type { ReplicaRow } from "../sql/replicas.ts";

/** Beats that did not come. */
const SILENT_BEATS = 3;

/** Undefined where there is none. `afterMs`: the silence that was asked for. */
export function silentOwnersWords(replicas: readonly ReplicaRow[], afterMs = 0): string | undefined {
  const silent = replicas.filter(
    ({ unheardSince, claimed, running, silentForMs, intervalMs }) =>
      unheardSince === null &&
      claimed + running > 0 &&
      (silentForMs ?? 0) > Math.max(afterMs, SILENT_BEATS * (intervalMs ?? 0)),
  );
  const longest = silent.reduce<ReplicaRow | undefined>(
    (most, one) => ((one.silentForMs ?? 0) > (most?.silentForMs ?? 0) ? one : most),
    undefined,
  );
  if (!longest) return undefined;
  const held = silent.reduce((sum, { claimed, running }) => sum + claimed + running, 0);
  const tasks = held === 1 ? "1 task is" : `${held} tasks are`;
  const workers = silent.length === 1 ? "a worker that has" : `${silent.length} workers that have`;
  const [silence, promise] = [longest.silentForMs ?? 0, longest.promiseMs ?? 0].map((ms) => formatDuration(ms));
  return `${tasks} held by ${workers} been silent for ${silence}. Nothing is taken before its heart has promised to have stopped: after ${promise}.`;
}

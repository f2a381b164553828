/** Watches a runner's loop from another thread, with the eyes of a heart, and tells its replica, which alone writes and ends. */
import { steadyNowMs } from "../heart/clock.ts";
import { LoopWatch, type LoopWatchParts } from "../heart/loop-watch.ts";
import type { SharedState } from "../heart/shared-state.ts";
import type { FromRunner } from "./protocol.ts";

export function watchRunnerLoop(parts: {
  shared: SharedState;
  stackAfterMs: number;
  readStack: LoopWatchParts["readStack"];
  tell: (message: FromRunner & { type: "blocked" | "turned" }) => void;
}): LoopWatch {
  const { shared, stackAfterMs, readStack, tell } = parts;
  return new LoopWatch({
    policy: { stackAfterMs, timeoutGraceMs: Number.POSITIVE_INFINITY, endAfterMs: undefined },
    // One that is still to begin has no loop yet.
    tickedAtMs: () => shared.get("tickedAtMs") || steadyNowMs(),
    deadlines: { overdueAt: () => [] },
    steadyNow: steadyNowMs,
    readStack,
    note: async (sight) => tell({ type: "blocked", sight }),
    turned: async (blockedMs) => tell({ type: "turned", blockedMs }),
    end: async () => {},
  });
}

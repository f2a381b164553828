/**
 * A clock that only ever goes forward and also runs while the machine is suspended: the one by which a process decides
 * when to stop trusting itself. (Linux's monotonic clock, and with it `performance.now()`, stands still in suspend.)
 * All threads and processes of a machine read the same one.
 */
import { uptime } from "node:os";

interface Clock {
  readonly nowMs: () => number;
  /** The clock may lag by this much. */
  readonly resolutionMs: number;
}

const byUptime = () => uptime() * 1_000;
const byHrtime = () => {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1_000 + nanoseconds / 1e6;
};

/**
 * Linux counts its uptime through suspend, in hundredths of a second (/proc/uptime); Windows too, in ticks of up to 16 ms. macOS does so in whole
 * seconds, and by the wall clock; but there the clock behind `process.hrtime` is the one that runs through suspend. Where that is not
 * known of any clock, it is the finest.
 */
const CLOCKS: Partial<Record<NodeJS.Platform, Clock>> = {
  linux: { nowMs: byUptime, resolutionMs: 10 },
  android: { nowMs: byUptime, resolutionMs: 10 },
  win32: { nowMs: byUptime, resolutionMs: 16 },
  darwin: { nowMs: byHrtime, resolutionMs: 0 },
};

export function clockOf(platform: NodeJS.Platform): Clock {
  return CLOCKS[platform] ?? { nowMs: byHrtime, resolutionMs: 0 };
}

export function steadyNowMs(): number {
  return clockOf(process.platform).nowMs();
}

export interface ClockSources {
  readonly steadyMs: () => number;
  readonly promptMs: () => number;
  readonly wallMs: () => number;
}

const SOURCES: ClockSources = { steadyMs: steadyNowMs, promptMs: () => performance.now(), wallMs: () => Date.now() };
/** The wall clock may differ from the prompt clock by this much before the steady clock is read. */
const AGREE_WITHIN_MS = 20;

/**
 * The same clock for callers that read it for every task. On Linux the steady clock takes 6 µs to read, and `performance.now()` a hundredth of
 * that. So `performance.now()` is read. It is set right by the steady clock whenever the wall clock shows that something has happened: a suspend,
 * or a change of the wall clock itself.
 */
export function createPromptClock({ steadyMs, promptMs, wallMs }: ClockSources = SOURCES): () => number {
  let aheadMs = steadyMs() - promptMs();
  let wallAheadMs = wallMs() - promptMs();
  return () => {
    const nowMs = promptMs();
    if (Math.abs(wallMs() - nowMs - wallAheadMs) > AGREE_WITHIN_MS) {
      wallAheadMs = wallMs() - nowMs;
      // The clock never goes back. The steady clock may lag by its resolution: then its difference is smaller, although no time was lost.
      aheadMs = Math.max(aheadMs, steadyMs() - nowMs);
    }
    return nowMs + aheadMs;
  };
}

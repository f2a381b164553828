/** The one shape of everything that runs in the background: `runOnce` holds what is worth testing, the loop is shared. */
import { delay, idleDelay } from "../database/backoff.ts";
import type { ServiceName } from "./list.ts";

export interface Service {
  readonly name: ServiceName;
  start(): void;
  /** Idempotent; resolves when the last run has ended. */
  stop(): Promise<void>;
  runOnce(): Promise<void>;
  /** Runs soon, whatever the interval. Several calls before that are one run. */
  trigger(): void;
  /** The last run that ended. */
  readonly lastRun: ServiceRun | undefined;
}

export interface ServiceRun {
  readonly endedAt: Date;
  readonly tookMs: number;
  /** What it failed with. */
  readonly error?: unknown;
}

export interface ServiceOptions {
  readonly name: ServiceName;
  readonly intervalMs: number;
  /** Until the first run after its start. Without it, a moment. */
  readonly firstAfterMs?: number;
  /** Asked after every run: how long until the next. Without it, the interval, jittered so that replicas that started together do not all come at once. */
  readonly pauseMs?: () => number;
  /** The signal fires when the service stops: a long run ends early. */
  readonly runOnce: (signal: AbortSignal) => Promise<void>;
  /** False: a process that has nothing else to do does not stay for the next run. */
  readonly keepsProcess?: boolean;
  /** A run that throws is reported, and the service goes on. */
  readonly onError: (error: unknown) => void;
}

/** What a process does in the background is not as urgent as what it was started for, which has the connections first. */
const FIRST_AFTER_MS = 50;

export function createService(options: ServiceOptions): Service {
  const stopping = new AbortController();
  let wake = new AbortController();
  let loop: Promise<void> | undefined;
  let lastRun: ServiceRun | undefined;

  async function forever(): Promise<void> {
    await pause(options.firstAfterMs ?? Math.min(FIRST_AFTER_MS, options.intervalMs));
    while (!stopping.signal.aborted) {
      await runOnce().catch(options.onError);
      await pause(options.pauseMs?.() ?? options.intervalMs * (0.75 + Math.random() * 0.5));
    }
  }

  async function runOnce(): Promise<void> {
    const beganMs = performance.now();
    const ended = () => ({ endedAt: new Date(), tookMs: performance.now() - beganMs });
    try {
      await options.runOnce(stopping.signal);
      lastRun = ended();
    } catch (error) {
      lastRun = { ...ended(), error };
      throw error;
    }
  }

  async function pause(ms: number): Promise<void> {
    const idle = options.keepsProcess === false ? idleDelay : delay;
    await idle(ms, stopping.signal, wake.signal);
    if (wake.signal.aborted) wake = new AbortController();
  }

  return {
    name: options.name,
    start() {
      loop ??= forever();
    },
    async stop() {
      stopping.abort();
      await loop;
    },
    runOnce,
    trigger: () => wake.abort(),
    get lastRun() {
      return lastRun;
    },
  };
}

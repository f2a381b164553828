/**
 * The runs of the turns that this process has: begun, ended early, told to the database when they are over. What is under way, and when each service should
 * run again here, is asked by whoever stands in line for them (cluster-services.ts).
 */
import { clip } from "../clip.ts";
import { delay } from "../database/backoff.ts";
import type { Database } from "../database/database.ts";
import { type EndedRun, endTurn } from "../sql/turns.ts";
import { toErrorRecord } from "../task/error-record.ts";
import type { ReplicaId } from "../task/ids.ts";
import type { ClusterService, Turn } from "./cluster-service.ts";
import { pauseAfterRunMs } from "./line.ts";
import { StuckRuns } from "./stuck-runs.ts";

export interface TurnRunsParts {
  readonly database: Database;
  readonly taker: { readonly id: ReplicaId };
  readonly onError: (error: unknown, doing: string) => void;
  /** After this long a run is asked to end, and its turn is free: something in it does not come to an end. */
  readonly longestRunMs?: number | undefined;
}

const LONGEST_RUN_MS = 600_000;
/** Without another word from its taker a turn is free after this long. */
export const HOLD_MS = 5_000;
/** How long an end waits for runs, which were asked to end. */
const LAST_RUNS_MS = 5_000;
const MOST_ERROR_TEXT = 500;

interface Run {
  readonly token: string;
  readonly beganMs: number;
  readonly ending: AbortController;
  readonly ended: Promise<void>;
}

/** One that went well. */
export interface EndedHere extends EndedRun {
  readonly name: string;
}

export class TurnRuns {
  readonly #parts: TurnRunsParts;
  readonly #runs = new Map<string, Run>();
  /** From when on each should run again here. */
  readonly #dueAtMs = new Map<string, number>();
  /** Those that went well are told of with the next question. */
  #ended: readonly EndedHere[] = [];
  readonly #stuck: StuckRuns;
  readonly #longestMs: number;

  constructor(parts: TurnRunsParts) {
    this.#parts = parts;
    this.#longestMs = parts.longestRunMs ?? LONGEST_RUN_MS;
    this.#stuck = new StuckRuns({ ...parts, longestMs: this.#longestMs });
  }

  isRunning(name: string): boolean {
    return this.#runs.has(name);
  }

  /** Less than 0: it is late. */
  dueInMs(name: string): number {
    return (this.#dueAtMs.get(name) ?? Number.NEGATIVE_INFINITY) - performance.now();
  }

  /** All services are due, however short a time ago they ran. */
  dueAtOnce(): void {
    this.#dueAtMs.clear();
  }

  /** Begins a turn. Resolves when it is over and told of. `onDue`: it is over, and how long until the service should run again. */
  begin(service: ClusterService, token: string, by: ReplicaId, onDue: (inMs: number) => void): Promise<void> {
    const ending = new AbortController();
    const beganMs = performance.now();
    const ended = this.#run(service, { by, token, beganMs, signal: ending.signal }, onDue);
    ended.catch(() => {});
    this.#runs.set(service.name, { token, beganMs, ending, ended });
    return ended;
  }

  /** The turn is another's by now. */
  endUnless(name: string, token: string): void {
    const run = this.#runs.get(name);
    if (run && run.token !== token) run.ending.abort();
  }

  endAll(): void {
    for (const { ending } of this.#runs.values()) ending.abort();
  }

  endLongOnes(): void {
    for (const [name, { beganMs, ending }] of this.#runs) {
      const runsForMs = performance.now() - beganMs;
      if (runsForMs > this.#longestMs) ending.abort();
      if (runsForMs > this.#longestMs + HOLD_MS) this.#stuck.met(name, runsForMs);
    }
  }

  /** Not for ever: there may be one that does not end. */
  async allEnded(): Promise<void> {
    const waited = new AbortController();
    const ended = Promise.allSettled([...this.#runs.values()].map((run) => run.ended));
    await Promise.race([ended, delay(LAST_RUNS_MS, waited.signal)]);
    waited.abort();
  }

  /** What is still to be told. */
  get ended(): readonly EndedHere[] {
    return this.#ended;
  }

  /** The tokens of what goes on. */
  runningOf(names: ReadonlySet<string>): string[] {
    const running = [...this.#runs].filter(([name, { ending }]) => names.has(name) && !ending.signal.aborted);
    return running.map(([, { token }]) => token);
  }

  /** These ends were told. `awaited`: the tokens of those that could not be written, and are to be told again. */
  told(ended: readonly EndedHere[], awaited: ReadonlySet<string>): void {
    this.#ended = this.#ended.filter((run) => !ended.includes(run) || awaited.has(run.token));
  }

  /** Without waiting for a question. */
  async tellEnded(): Promise<void> {
    const ended = this.#ended;
    this.#ended = [];
    for (const { token, tookMs } of ended) await endTurn(this.#parts.database, { token, tookMs, error: undefined });
  }

  async #run(
    service: ClusterService,
    turn: Turn & { token: string; beganMs: number },
    onDue: (inMs: number) => void,
  ): Promise<void> {
    const { database, onError } = this.#parts;
    const { name, everyMs, doing } = service;
    // Begins when it is on the list of what runs.
    await undefined;
    let error: unknown;
    try {
      await service.runOnce({ by: turn.by, signal: turn.signal });
    } catch (thrown) {
      error = thrown ?? new Error(String(thrown));
    }
    const nowMs = performance.now();
    const tookMs = nowMs - turn.beganMs;
    const pauseMs = pauseAfterRunMs({ tookMs, hasFailed: error !== undefined }, everyMs);
    this.#dueAtMs.set(name, nowMs + pauseMs);
    onDue(pauseMs);
    if (error === undefined) {
      this.#ended = [...this.#ended, { name, token: turn.token, tookMs }];
      this.#leave(name);
      return;
    }
    // At once, so that the next in line need not wait. If it cannot be written, the turn is free by itself after a while.
    const told = clip(toErrorRecord(error, "ERROR").message, MOST_ERROR_TEXT);
    await endTurn(database, { token: turn.token, tookMs, error: told }).catch(() => {});
    this.#leave(name);
    onError(error, doing);
  }

  #leave(name: string): void {
    this.#runs.delete(name);
    this.#stuck.ended(name);
  }
}

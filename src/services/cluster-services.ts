/**
 * What runs once in the cluster, in a process that could run it. Whose turn it is stands in the database (take_turns), for all services in one statement:
 *
 *   in line ──asks now and then──▶ take_turns ──nothing is late──▶ in line
 *                                      └──due──▶ runs it ──▶ end_turn ──▶ asks when the next of its turns is due
 *
 * No session keeps a turn, so none can keep it for ever: a process that is killed, stopped, blocked or cut off does not ask for more time, and the turn is
 * free. For the same reason two can be at one service for a moment, as when a process that was stopped goes on. So what a service does must stay
 * right if two do it: by conditional writes, rows that are locked and looked at again, or a lock for one transaction.
 *
 * All turns of a process are run beside each other. One that is slow or fails delays no other.
 */
import { hostname } from "node:os";
import { clip } from "../clip.ts";
import { delay } from "../database/backoff.ts";
import type { Database } from "../database/database.ts";
import { inHalves } from "../database/in-halves.ts";
import { isAboutSomeRows } from "../database/transient.ts";
import { type EndedRun, endTurn, type TurnAnswer, takeTurns, type WantedTurn } from "../sql/turns.ts";
import { toErrorRecord } from "../task/error-record.ts";
import type { ReplicaId } from "../task/ids.ts";
import { Timer } from "../timer.ts";
import {
  type Held,
  patienceMs,
  pauseAfterRunMs,
  pauseToAskMs,
  placesInLine,
  startUpFromMs,
  takeoverFromMs,
} from "./line.ts";
import { createService, type Service, type ServiceRun } from "./service.ts";
import { StuckRuns } from "./stuck-runs.ts";

export interface ClusterService {
  readonly name: string;
  readonly everyMs: number;
  /** In words, for the log. */
  readonly doing: string;
  /** It is run at once by a process that starts, and by another as soon as it is late, whether or not the one that has it is still at it. */
  readonly isUrgent?: boolean;
  runOnce(turn: Turn): Promise<void>;
  /** It is somebody else's turn, or nobody can be asked, and it has not been run for too long. */
  onOverdue?(): Promise<void>;
}

export interface Turn {
  /** Under this id. */
  readonly by: ReplicaId;
  /** Fires when the run should end early: the process stops, the run takes too long, or the turn was lost to another. */
  readonly signal: AbortSignal;
}

export interface ClusterServicesParts {
  readonly database: Database;
  readonly taker: { readonly id: ReplicaId; readonly isReplica?: boolean };
  readonly services: readonly ClusterService[];
  /** While this process goes over to another id, it takes no turn. */
  readonly isMoving?: () => boolean;
  /** After every time that it asked. */
  readonly onAsked?: () => void;
  readonly onError: (error: unknown, doing: string) => void;
  /** After this long a run is asked to end, and its turn is free: something in it does not come to an end. */
  readonly longestRunMs?: number | undefined;
}

/** Without another word from its taker a turn is free after this long. */
const HOLD_MS = 5_000;
const LONGEST_RUN_MS = 600_000;
/** How long an end waits for runs, which were asked to end. */
const LAST_RUNS_MS = 5_000;
/** What is due within this share of its interval is asked for with the others. */
const EARLY = 0.1;
const MOST_ERROR_TEXT = 500;

interface Run {
  readonly token: string;
  readonly beganMs: number;
  readonly ending: AbortController;
  readonly ended: Promise<void>;
}

interface EndedHere extends EndedRun {
  readonly name: string;
}

export class ClusterServices {
  readonly name = "turns";
  readonly #parts: ClusterServicesParts;
  readonly #loop: Service;
  readonly #runs = new Map<string, Run>();
  /** From when on each should run again here. */
  readonly #dueAtMs = new Map<string, number>();
  /** Those that went well are told of with the next question. */
  #ended: EndedHere[] = [];
  readonly #stuck: StuckRuns;
  #services: readonly ClusterService[] = [];
  #isStarting: boolean;
  #pauseMs: number;
  #askAtMs = Number.NEGATIVE_INFINITY;
  #waking: Timer | undefined;

  constructor(parts: ClusterServicesParts) {
    this.#parts = parts;
    this.#services = mostFrequentFirst(parts.services);
    this.#pauseMs = this.#mostFrequent?.everyMs ?? HOLD_MS;
    // One that is no replica stands behind all of them, also when it starts.
    this.#isStarting = parts.taker.isReplica ?? true;
    this.#stuck = new StuckRuns({ ...parts, longestMs: this.#longestRunMs });
    this.#loop = createService({
      name: "turns",
      intervalMs: this.#pauseMs,
      pauseMs: () => this.pauseMs,
      // Nobody waits for the runs: what they fail with was reported.
      runOnce: async () => void (await this.#ask()),
      onError: (error) => parts.onError(error, this.#mostFrequent?.doing ?? "taking turns"),
    });
  }

  /** Others than before, or at other intervals. */
  set services(services: readonly ClusterService[]) {
    this.#services = mostFrequentFirst(services);
    this.#dueAtMs.clear();
    this.#loop.trigger();
  }

  /** How long until it should ask again. */
  get pauseMs(): number {
    return Math.max(0, this.#askAtMs - performance.now());
  }

  get lastRun(): ServiceRun | undefined {
    return this.#loop.lastRun;
  }

  start(): void {
    this.#loop.start();
  }

  /** Asks its runs to end, and waits for them: not for ever, since there may be one that does not. */
  async stop(): Promise<void> {
    const stopped = this.#loop.stop();
    for (const { ending } of this.#runs.values()) ending.abort();
    await stopped;
    for (const { ending } of this.#runs.values()) ending.abort();
    const waited = new AbortController();
    const ended = Promise.allSettled([...this.#runs.values()].map((run) => run.ended));
    await Promise.race([ended, delay(LAST_RUNS_MS, waited.signal)]);
    waited.abort();
    this.#waking?.stop();
    await this.#tellEnded().catch(() => {});
  }

  /** Takes all turns that it may have now, however short a time ago it ran them, and waits until they were run. */
  async runOnce(): Promise<void> {
    this.#dueAtMs.clear();
    await Promise.all(await this.#ask());
    await this.#tellEnded();
  }

  get #mostFrequent(): ClusterService | undefined {
    return this.#services[0];
  }

  /** Returns what follows from it: the runs that have begun, and what is said of those that are overdue. */
  async #ask(): Promise<Promise<void>[]> {
    const { isMoving, taker } = this.#parts;
    if (isMoving?.() || !this.#mostFrequent) {
      this.#askAgainIn(this.#mostFrequent?.everyMs ?? HOLD_MS);
      return [];
    }
    const by = taker.id;
    this.#endLongRuns();
    const answers = await this.#takeTurns(by).catch(async (error: unknown) => {
      this.#askAgainIn(Math.max(this.#pauseMs, this.#mostFrequent?.everyMs ?? HOLD_MS));
      for (const service of this.#services) await service.onOverdue?.().catch(() => {});
      throw error;
    });
    this.#isStarting = false;
    this.#parts.onAsked?.();
    const begun = this.#services.flatMap((service) => {
      const answer = answers.get(service.name);
      return answer ? this.#follow(service, answer, by) : [];
    });
    this.#askAgainIn(this.#pauseAfter(answers, by));
    return begun;
  }

  #askAgainIn(ms: number): void {
    this.#pauseMs = ms;
    this.#askAtMs = performance.now() + ms;
  }

  async #takeTurns(id: ReplicaId): Promise<Map<string, TurnAnswer>> {
    const { database, taker, onError } = this.#parts;
    const places = placesInLine(this.#mostFrequent?.everyMs ?? HOLD_MS);
    const ended = this.#ended;
    const who = { id, host: hostname(), isReplica: taker.isReplica ?? true, places, holdMs: HOLD_MS };
    // One statement. Where the turn of one service is refused, as by a trigger of a user's, the others are taken without it.
    const answers = await inHalves(
      this.#services,
      (some) =>
        takeTurns(
          database,
          who,
          some.map((service) => this.#wanted(service)),
          this.#lastOf(some, ended),
        ),
      async ({ doing, onOverdue }, error) => {
        onError(error, doing);
        await onOverdue?.().catch(() => {});
        return [];
      },
      isAboutSomeRows,
    );
    const awaited = new Set(answers.flatMap(({ token, awaitsEnd }) => (awaitsEnd ? [token] : [])));
    this.#ended = this.#ended.filter((run) => !ended.includes(run) || awaited.has(run.token));
    return new Map(answers.map((answer) => [answer.service, answer]));
  }

  #wanted(service: ClusterService): WantedTurn {
    const { name, everyMs, isUrgent } = service;
    const fromMs = this.#isWanted(service) ? this.#fromMs(service) : undefined;
    return { service: name, everyMs, fromMs, isHeld: !isUrgent };
  }

  /** Only of these services: the turn of another may be the one that is refused. */
  #lastOf(services: readonly ClusterService[], ended: readonly EndedHere[]) {
    const names = new Set(services.map(({ name }) => name));
    const running = [...this.#runs].filter(([name, { ending }]) => names.has(name) && !ending.signal.aborted);
    return { running: running.map(([, { token }]) => token), ended: ended.filter(({ name }) => names.has(name)) };
  }

  #isWanted({ name, everyMs }: ClusterService): boolean {
    return !this.#runs.has(name) && this.#dueInMs(name) <= everyMs * EARLY;
  }

  #dueInMs(name: string): number {
    return (this.#dueAtMs.get(name) ?? Number.NEGATIVE_INFINITY) - performance.now();
  }

  #fromMs({ everyMs, isUrgent }: ClusterService): number {
    return isUrgent && this.#isStarting ? startUpFromMs(everyMs) : takeoverFromMs(everyMs);
  }

  #follow(service: ClusterService, { isOurs, token, takenAgoMs }: TurnAnswer, by: ReplicaId): Promise<void>[] {
    const { name, everyMs } = service;
    if (isOurs) return [this.#begin(service, token, by)];
    const run = this.#runs.get(name);
    if (run && run.token !== token) run.ending.abort();
    const isOverdue = run === undefined && (takenAgoMs ?? 0) > patienceMs(everyMs);
    return isOverdue && service.onOverdue ? [service.onOverdue().catch(() => {})] : [];
  }

  #begin(service: ClusterService, token: string, by: ReplicaId): Promise<void> {
    const ending = new AbortController();
    const beganMs = performance.now();
    const ended = this.#run(service, { by, token, beganMs, signal: ending.signal });
    ended.catch(() => {});
    this.#runs.set(service.name, { token, beganMs, ending, ended });
    return ended;
  }

  async #run(service: ClusterService, turn: Turn & { token: string; beganMs: number }): Promise<void> {
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
    if (pauseMs < this.pauseMs) this.#wakeIn(pauseMs);
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

  /** It sleeps for longer than that, since it did not know how long the run would take. */
  #wakeIn(ms: number): void {
    this.#askAtMs = performance.now() + ms;
    this.#waking?.stop();
    this.#waking = new Timer(ms, () => this.#loop.trigger());
  }

  async #tellEnded(): Promise<void> {
    for (const { token, tookMs } of this.#ended.splice(0))
      await endTurn(this.#parts.database, { token, tookMs, error: undefined });
  }

  #endLongRuns(): void {
    for (const [name, { beganMs, ending }] of this.#runs) {
      const runsForMs = performance.now() - beganMs;
      if (runsForMs > this.#longestRunMs) ending.abort();
      if (runsForMs > this.#longestRunMs + HOLD_MS) this.#stuck.met(name, runsForMs);
    }
  }

  get #longestRunMs(): number {
    return this.#parts.longestRunMs ?? LONGEST_RUN_MS;
  }

  #pauseAfter(answers: ReadonlyMap<string, TurnAnswer>, by: ReplicaId): number {
    const held = this.#services.flatMap((service) => {
      const answer = answers.get(service.name);
      return answer && (answer.isOurs || answer.takenBy === by) ? this.#heldHere(service) : [];
    });
    const everyMs = this.#mostFrequent?.everyMs ?? HOLD_MS;
    const { place = 1, takenAgoMs: agoMs = null } = answers.get(this.#mostFrequent?.name ?? "") ?? {};
    const standby = place === null ? undefined : { place, agoMs };
    return pauseToAskMs({ held, standby }, { everyMs, holdMs: HOLD_MS, random: Math.random() });
  }

  #heldHere(service: ClusterService): Held {
    const { name, everyMs } = service;
    return {
      isRunning: this.#runs.has(name),
      wasInVain: this.#isWanted(service),
      dueInMs: this.#dueInMs(name),
      everyMs,
    };
  }
}

function mostFrequentFirst(services: readonly ClusterService[]): readonly ClusterService[] {
  return services.toSorted((a, b) => a.everyMs - b.everyMs);
}

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
import { inHalves } from "../database/in-halves.ts";
import { isAboutSomeRows } from "../database/transient.ts";
import { type TurnAnswer, takeTurns, type WantedTurn } from "../sql/turns.ts";
import type { ReplicaId } from "../task/ids.ts";
import { Timer } from "../timer.ts";
import type { ClusterService } from "./cluster-service.ts";
import { type Held, patienceMs, pauseToAskMs, placesInLine, startUpFromMs, takeoverFromMs } from "./line.ts";
import { createService, type Service, type ServiceRun } from "./service.ts";
import { type EndedHere, HOLD_MS, TurnRuns, type TurnRunsParts } from "./turn-runs.ts";

export interface ClusterServicesParts extends TurnRunsParts {
  readonly taker: { readonly id: ReplicaId; readonly isReplica?: boolean };
  readonly services: readonly ClusterService[];
  /** While this process goes over to another id, it takes no turn. */
  readonly isMoving?: () => boolean;
  /** After every time that it asked. */
  readonly onAsked?: () => void;
}

/** What is due within this share of its interval is asked for with the others. */
const EARLY = 0.1;

export class ClusterServices {
  readonly name = "turns";
  readonly #parts: ClusterServicesParts;
  readonly #loop: Service;
  readonly #runs: TurnRuns;
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
    this.#runs = new TurnRuns(parts);
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
    this.#runs.dueAtOnce();
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
    this.#runs.endAll();
    await stopped;
    this.#runs.endAll();
    await this.#runs.allEnded();
    this.#waking?.stop();
    await this.#runs.tellEnded().catch(() => {});
  }

  /** Takes all turns that it may have now, however short a time ago it ran them, and waits until they were run. */
  async runOnce(): Promise<void> {
    this.#runs.dueAtOnce();
    await Promise.all(await this.#ask());
    await this.#runs.tellEnded();
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
    this.#runs.endLongOnes();
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
    const { ended } = this.#runs;
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
    this.#runs.told(ended, awaited);
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
    return { running: this.#runs.runningOf(names), ended: ended.filter(({ name }) => names.has(name)) };
  }

  #isWanted({ name, everyMs }: ClusterService): boolean {
    return !this.#runs.isRunning(name) && this.#runs.dueInMs(name) <= everyMs * EARLY;
  }

  #fromMs({ everyMs, isUrgent }: ClusterService): number {
    return isUrgent && this.#isStarting ? startUpFromMs(everyMs) : takeoverFromMs(everyMs);
  }

  #follow(service: ClusterService, { isOurs, token, takenAgoMs }: TurnAnswer, by: ReplicaId): Promise<void>[] {
    const { name, everyMs } = service;
    if (isOurs) return [this.#runs.begin(service, token, by, (inMs) => this.#askAtTheLatestIn(inMs))];
    this.#runs.endUnless(name, token);
    const isOverdue = !this.#runs.isRunning(name) && (takenAgoMs ?? 0) > patienceMs(everyMs);
    return isOverdue && service.onOverdue ? [service.onOverdue().catch(() => {})] : [];
  }

  /** It may sleep for longer than that, since it did not know how long a run would take. */
  #askAtTheLatestIn(ms: number): void {
    if (ms >= this.pauseMs) return;
    this.#askAtMs = performance.now() + ms;
    this.#waking?.stop();
    this.#waking = new Timer(ms, () => this.#loop.trigger());
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
      isRunning: this.#runs.isRunning(name),
      wasInVain: this.#isWanted(service),
      dueInMs: this.#runs.dueInMs(name),
      everyMs,
    };
  }
}

function mostFrequentFirst(services: readonly ClusterService[]): readonly ClusterService[] {
  return services.toSorted((a, b) => a.everyMs - b.everyMs);
}

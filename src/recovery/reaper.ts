/**
 * The reaper: listens for silence, gives verdicts and recovers. Any replica can be it, one is at a time, and nobody is
 * configured to be it: whoever gets the lock for this sweep. The others stand in line (see standby.ts).
 *
 *   listen ──▶ verdicts (pure) ──▶ guard (pure) ──▶ declare dead, on the evidence of that moment ──▶ recover
 *
 * Every sweep also recovers every task whose owner is not alive, so that no race between a claim and a verdict strands one.
 */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { Database } from "../database/database.ts";
import type { Events } from "../events.ts";
import { createService, type Service } from "../service.ts";
import { raiseAlert, resolveAlerts } from "../sql/alerts.ts";
import {
  beginSweep,
  type DoubtfulHeart,
  declareDead,
  type RefusedHeart,
  readDoubtfulHearts,
  type SweepTurn,
} from "../sql/hearts.ts";
import { readUnstarted, releaseWhileSilent } from "../sql/recover-claims.ts";
import { type AbsentOwner, beginHold, endHold, findAbsentOwners, noteSweep } from "../sql/recovery.ts";
import { noteSilence } from "../sql/reliability.ts";
import type { ReplicaId } from "../task/ids.ts";
import { freeClaims } from "./free-claims.ts";
import { deathOf, deathOfAbsent, doubtOf, type Judged, judge, limitOf } from "./judged.ts";
import { whileListening } from "./keep-listening.ts";
import { countDying, holdOn } from "./mass-death.ts";
import { PassedBy } from "./passed-by.ts";
import { policyOf } from "./policy.ts";
import { type LastSigns, POST_MORTEMS, PostMortems } from "./post-mortems.ts";
import { purgeRecord } from "./purge.ts";
import { RECOVERY_OF_TASKS, recoverTasksOf } from "./recover.ts";
import { StallWatch } from "./stall-watch.ts";
import { pauseBetweenSweepsMs, pauseInLineMs, placesInLine, startUpFromMs, takeoverFromMs } from "./standby.ts";
import { alertIfStopped, endStoppedAlert } from "./stopped-sweeps.ts";
import { isSweeping } from "./sweeping.ts";
import { doubtFromMs } from "./verdict.ts";

/** A sweep that comes later than this many intervals is a takeover, and not only a late sweep. */
const TAKEOVER_AFTER = 1.5;

export interface ReaperParts {
  readonly database: Database;
  readonly events: Events;
  readonly settings: RecoverySettings;
  /** Who sweeps: a replica, or one that only listens and has no heart. */
  readonly replica: { readonly id: ReplicaId; readonly isListener?: boolean };
  /** While this process moves its claims to another id, it must not judge the one that it leaves. */
  readonly isMoving: () => boolean;
  readonly onError: (error: unknown) => void;
  /** What tasks and hearts said last, for the post-mortems. */
  readonly lastSigns?: LastSigns;
}

/** How often dead replicas are asked about that no sweep of ours has met. */
const EXAMINE_EVERY_MS = 5_000;

export function createReaper(parts: ReaperParts): Service {
  const reaper = new Reaper(parts);
  return createService({
    intervalMs: parts.settings.checkMs,
    pauseMs: () => reaper.pauseMs,
    onError: parts.onError,
    runOnce: () => reaper.sweep(),
  });
}

export class Reaper {
  readonly #parts: ReaperParts;
  readonly #postMortems: PostMortems;
  readonly #stalls: StallWatch;
  readonly #passedBy: Record<
    "hearts" | "silences" | "verdicts" | "releases" | "owners" | "tasks" | "postMortems" | "stalls" | "purges",
    PassedBy
  >;
  #purgedAt = Number.NEGATIVE_INFINITY;
  #examinedAt = Number.NEGATIVE_INFINITY;
  #stale: ReadonlySet<ReplicaId> = new Set();
  readonly #noted = new Set<ReplicaId>();
  #pauseMs: number;
  /** A listener that is no replica stands behind all workers, also when it starts. */
  #isStarting: boolean;

  constructor(parts: ReaperParts) {
    this.#parts = parts;
    this.#pauseMs = parts.settings.checkMs;
    this.#isStarting = !parts.replica.isListener;
    this.#postMortems = new PostMortems(parts);
    const passedBy = (part: string) => new PassedBy({ service: "sweep", part }, parts);
    this.#passedBy = {
      ...{ hearts: passedBy("hearts"), silences: passedBy("silences"), verdicts: passedBy("verdicts") },
      ...{
        releases: passedBy("releases"),
        owners: passedBy("owners"),
        tasks: passedBy(RECOVERY_OF_TASKS),
        postMortems: passedBy(POST_MORTEMS),
      },
      ...{ stalls: passedBy("stalls"), purges: passedBy("purges") },
    };
    this.#stalls = new StallWatch({ ...parts, passedBy: this.#passedBy.stalls });
  }

  /** How long until it should be asked to sweep again. */
  get pauseMs(): number {
    return this.#pauseMs;
  }

  /** The listener is listened to: whoever lives and cannot sweep says so, once nobody has for too long. */
  async sweep(): Promise<void> {
    const { database, events, settings, isMoving } = this.#parts;
    if (isMoving()) return;
    try {
      await this.#sweepInTurn();
    } catch (error) {
      await alertIfStopped({ database, events, checkMs: settings.checkMs }).catch(() => {});
      throw error;
    }
  }

  async #sweepInTurn(): Promise<void> {
    const { database, events, settings, replica } = this.#parts;
    const startedMs = performance.now();
    const isReplica = !replica.isListener;
    const gapMs = 2.5 * Math.max(settings.checkMs, settings.runnerIntervalMs, settings.claimerIntervalMs);
    const turn = await beginSweep(database, {
      id: replica.id,
      isReplica,
      minIntervalMs: (this.#isStarting ? startUpFromMs : takeoverFromMs)(settings.checkMs),
      gapMs,
      places: placesInLine(settings.checkMs),
    });
    this.#isStarting = false;
    const hadStopped = turn.sweptAgoMs !== null && !isSweeping({ sweptAgoMs: turn.sweptAgoMs }, settings.checkMs);
    // Somebody else is at it, or was just now: it has seen all that we would see.
    if (!turn.isOurs) {
      const { place, sweptAgoMs } = turn;
      this.#pauseMs = pauseInLineMs({ place: place ?? 1, sweptAgoMs }, settings.checkMs, Math.random());
      if (hadStopped) await alertIfStopped({ database, events, checkMs: settings.checkMs });
      return;
    }
    if (hadStopped) await endStoppedAlert(database);
    this.#tellOfTakeover(turn);
    await whileListening({ database, gapMs, isReplica }, () => this.#doParts(turn));
    const tookMs = performance.now() - startedMs;
    await noteSweep(database, tookMs);
    this.#pauseMs = pauseBetweenSweepsMs(tookMs, settings.checkMs);
  }

  /** Each stands for itself: where one fails, the others are done. */
  async #doParts(turn: SweepTurn): Promise<void> {
    const { verdicts, owners, stalls } = this.#passedBy;
    await this.#tellOfRefused(turn);
    const hasDeclared = await verdicts.attempt("giving verdicts", () => this.#giveVerdicts(turn));
    await owners.attempt("recovering the tasks of the dead", () => this.#recoverAbsent(hasDeclared ?? false));
    await stalls.attempt("looking for stalls", () => this.#stalls.look());
    await this.#purge();
  }

  /** Of hearts whose rows could not be written: the end of their sessions is not noted, and they are judged by their silence only. */
  async #tellOfRefused({ refused, refusedCount }: SweepTurn): Promise<void> {
    const { hearts } = this.#passedBy;
    const whatOf = ({ replicaId }: RefusedHeart) => `noting whether the session of replica ${replicaId} is free`;
    await hearts.each(refused, whatOf, async ({ code, message }) => {
      throw Object.assign(new Error(message), { code });
    });
    // Where not all are named, one that is not may still be refused.
    if (refused.length === refusedCount) await hearts.settle();
  }

  /** True: somebody was declared dead. */
  async #giveVerdicts(turn: SweepTurn): Promise<boolean> {
    const judged = await this.#judge();
    await this.#warn(judged);
    if (!(await this.#mayAct(judged, turn))) return false;
    const hasDeclared = await this.#act(judged);
    await this.#passedBy.verdicts.settle();
    return hasDeclared;
  }

  async #judge(): Promise<Judged[]> {
    const { database, settings } = this.#parts;
    const silentFromMs = doubtFromMs([policyOf(settings, "claimed"), policyOf(settings, "running")]);
    const doSessionsCount = settings.sessionGraceMs !== undefined;
    const hearts = await readDoubtfulHearts(database, { silentFromMs, doSessionsCount });
    return hearts.map((heart) => judge(heart, settings));
  }

  /** True: somebody was declared dead. */
  async #act(judged: readonly Judged[]): Promise<boolean> {
    const { database, events, settings } = this.#parts;
    let hasDeclared = false;
    const verdictOnIt = ({ heart }: Judged) => `the verdict on replica ${heart.replicaId}`;
    const areAllDone = await this.#passedBy.verdicts.each(judged, verdictOnIt, async ({ heart, running, claimed }) => {
      if (this.#parts.isMoving()) return;
      if (running.kind === "dead") {
        const death = deathOf(heart, running.because);
        const policy = policyOf(settings, "running");
        const isDead = await declareDead(database, heart.replicaId, {
          because: running.because,
          minMs: limitOf(heart, running.because, policy),
          death,
        });
        if (isDead) events.emit("replica.dead", { ...death, replicaId: heart.replicaId });
        hasDeclared ||= isDead;
      } else if (claimed.kind === "dead" && settings.requeuesClaimed) {
        await this.#releaseClaimed(heart);
      }
    });
    // What a replica holds that was passed by was not met, and is neither given back nor gone.
    if (areAllDone) await this.#passedBy.releases.settle();
    return hasDeclared;
  }

  /** Silent for too long for what it has only claimed, and not for what it runs: on the evidence of that moment too. */
  async #releaseClaimed(heart: DoubtfulHeart): Promise<void> {
    const { database, events, settings } = this.#parts;
    const { replicaId } = heart;
    const owner = { replicaId, minMs: limitOf(heart, "silent", policyOf(settings, "claimed")) };
    const unstarted = await readUnstarted(database, replicaId);
    const released = await freeClaims(
      unstarted.map((claim) => ({ claim })),
      {
        whatOf: ({ claim }) => `giving back task ${claim.taskId} (${claim.name}), which was not started,`,
        act: (some) =>
          releaseWhileSilent(
            database,
            owner,
            some.map(({ claim }) => claim),
          ),
        passedBy: this.#passedBy.releases,
      },
    );
    for (const { claim } of released)
      events.emit("task.recovered", { ...claim, replicaId, action: "released", because: "silent" });
  }

  async #recoverAbsent(hasDeclared: boolean): Promise<void> {
    const owners = await findAbsentOwners(this.#parts.database);
    // Others declare deaths as well, also of those who had nothing in hand.
    const isDue = performance.now() - this.#examinedAt >= EXAMINE_EVERY_MS;
    if (owners.length > 0 || hasDeclared || isDue) await this.#recoverThese(owners);
    else await this.#passedBy.tasks.settle();
    await this.#passedBy.owners.settle();
  }

  async #recoverThese(owners: readonly AbsentOwner[]): Promise<void> {
    this.#examinedAt = performance.now();
    const postMortems = this.#postMortems;
    const told = await postMortems.examineDead(
      owners.map(({ replicaId }) => replicaId),
      this.#passedBy.postMortems,
    );
    const passedBy = this.#passedBy.tasks;
    const recoveryOfIts = ({ replicaId }: AbsentOwner) => `the recovery of replica ${replicaId}`;
    const areAllDone = await this.#passedBy.owners.each(owners, recoveryOfIts, async (owner) => {
      const death = deathOfAbsent(owner, told.get(owner.replicaId));
      await recoverTasksOf({ ...this.#parts, random: Math.random, postMortems, passedBy }, death);
    });
    // The tasks of an owner that was passed by were not met, and are neither done nor gone.
    if (areAllDone) await passedBy.settle();
  }

  /** Sweeps go round among those who live; what is told is that another has stopped doing its part. */
  #tellOfTakeover({ sweptBy, sweptAgoMs }: SweepTurn): void {
    const { events, replica, settings } = this.#parts;
    if (sweptBy === null || sweptAgoMs === null || sweptBy === replica.id) return;
    if (sweptAgoMs > TAKEOVER_AFTER * settings.checkMs)
      events.emit("reaper.took-over", { replicaId: replica.id, before: sweptBy, sweptAgoMs });
  }

  /** Whether so many may be declared dead at once; remembered in the database, so that a takeover does not start it anew. */
  async #mayAct(judged: readonly Judged[], turn: SweepTurn): Promise<boolean> {
    const { database, events, settings, replica } = this.#parts;
    const fleet = { ...countDying(judged.map(doubtOf)), heldForMs: undefined, isConfirmed: false };
    if (holdOn(fleet, settings.massDeath) === "act") {
      if (turn.isHeld && (await endHold(database))) {
        await resolveAlerts(database, "mass-death", "fleet");
        events.emit("recovery.resumed", { replicaId: replica.id });
      }
      return true;
    }
    if (judged.every((one) => one.running.kind !== "dead")) return false;
    const hold = await beginHold(database);
    const decision = holdOn({ ...fleet, ...hold }, settings.massDeath);
    if (decision === "hold") {
      const message = `${fleet.dying} of ${fleet.machines} machines fell silent at once; recovery holds for up to ${settings.massDeath.holdMs} ms.`;
      if (await raiseAlert(database, { kind: "mass-death", subject: "fleet", message, details: fleet }))
        events.emit("recovery.held", fleet);
    }
    return decision !== "hold";
  }

  /** Once for each silence; it is noted as soon as that can be done. */
  async #warn(judged: readonly Judged[]): Promise<void> {
    const hearts = judged.filter(({ running }) => running.kind === "stale").map(({ heart }) => heart);
    for (const { replicaId, silentForMs } of hearts)
      if (!this.#stale.has(replicaId)) this.#parts.events.emit("replica.stale", { replicaId, silentForMs });
    this.#stale = new Set(hearts.map(({ replicaId }) => replicaId));
    for (const id of this.#noted) if (!this.#stale.has(id)) this.#noted.delete(id);
    await this.#passedBy.silences.each(
      hearts.filter(({ replicaId }) => !this.#noted.has(replicaId)),
      ({ replicaId }) => `noting the silence of replica ${replicaId}`,
      async (heart) => {
        await noteSilence(this.#parts.database, heart);
        this.#noted.add(heart.replicaId);
      },
    );
    await this.#passedBy.silences.settle();
  }

  async #purge(): Promise<void> {
    const { database, settings } = this.#parts;
    if (performance.now() - this.#purgedAt < settings.purgeEveryMs) return;
    // What is left goes with the next sweeps, so that none of them takes long.
    if (await purgeRecord(database, settings, this.#passedBy.purges)) this.#purgedAt = performance.now();
    await endStoppedAlert(database);
  }
}

/**
 * Hearts, as a source of silence: a replica that is not heard is declared dead, and what it has claimed and not started is given back, perhaps
 * earlier. Its tasks are recovered by whatever is on record about their owners (absent-owners.ts).
 */
import type { RecoverySettings } from "../../config/recovery-options.ts";
import type { Database } from "../../database/database.ts";
import { isAboutTheValues } from "../../database/transient.ts";
import type { Events } from "../../events.ts";
import {
  type DoubtfulHeart,
  declareDead,
  type RefusedHeart,
  readDoubtfulHearts,
  type SweepBegun,
} from "../../sql/hearts.ts";
import { readUnstarted, releaseWhileSilent } from "../../sql/recover-claims.ts";
import { noteSilences } from "../../sql/reliability.ts";
import type { VerdictRecord } from "../../task/death.ts";
import type { ReplicaId } from "../../task/ids.ts";
import { AbsentOwners } from "../absent-owners.ts";
import { freeClaims } from "../free-claims.ts";
import { doubtFromMs, heartLimits } from "../limits.ts";
import type { PassedBy } from "../passed-by.ts";
import type { LastSigns } from "../post-mortems.ts";
import type { Dead, Doubtful, Policy, Source } from "../source.ts";
import { type MachineGuard, machineGuard } from "./machine-guard.ts";

export interface HeartParts {
  readonly database: Database;
  readonly events: Events;
  readonly settings: RecoverySettings;
  readonly replica: { readonly id: ReplicaId };
  /** While this process moves its claims to another id, it must not judge the one that it leaves. */
  readonly isMoving: () => boolean;
  readonly lastSigns?: LastSigns;
  /** One for each part of the sweep. */
  readonly passingBy: (part: string) => PassedBy;
}

type Heart = Doubtful<DoubtfulHeart>;
type DeadHeart = Dead<DoubtfulHeart>;

export class HeartSource implements Source<DoubtfulHeart> {
  readonly doing = "giving verdicts";
  readonly passedBy: PassedBy;
  readonly policies: Source<DoubtfulHeart>["policies"];
  readonly guard: MachineGuard;
  readonly #parts: HeartParts;
  readonly #absent: AbsentOwners;
  readonly #passedBy: Record<"hearts" | "silences" | "releases", PassedBy>;
  #stale: ReadonlySet<ReplicaId> = new Set();
  readonly #noted = new Set<ReplicaId>();

  constructor(parts: HeartParts) {
    const { settings, passingBy } = parts;
    this.#parts = parts;
    this.#absent = new AbsentOwners(parts);
    this.guard = machineGuard(parts, settings);
    this.passedBy = passingBy("verdicts");
    this.#passedBy = {
      ...{ hearts: passingBy("hearts"), silences: passingBy("silences"), releases: passingBy("releases") },
    };
    this.policies = [this.#deaths(), ...(settings.requeuesClaimed ? [this.#releases()] : [])];
  }

  /** What the beginning of the sweep has found out: whether the hearts are held, and hearts whose rows could not be written. */
  async begin({ isHeld, refused, refusedCount }: SweepBegun): Promise<void> {
    this.guard.isHeld = isHeld;
    const { hearts } = this.#passedBy;
    // The end of their sessions is not noted, and they are judged by their silence only.
    const whatOf = ({ replicaId }: RefusedHeart) => `noting whether the session of replica ${replicaId} is free`;
    await hearts.each(refused, whatOf, async ({ code, message }) => {
      throw Object.assign(new Error(message), { code });
    });
    // Where not all are named, one that is not may still be refused.
    if (refused.length === refusedCount) await hearts.settle();
  }

  async findDoubtful(): Promise<Heart[]> {
    const { database, settings } = this.#parts;
    const hearts = await readDoubtfulHearts(database, {
      silentFromMs: doubtFromMs(settings),
      doSessionsCount: settings.sessionGraceMs !== undefined,
    });
    return hearts.map((heart) => ({
      subject: `replica ${heart.replicaId}`,
      silentForMs: heart.silentForMs,
      sessionFreeForMs: heart.sessionFreeForMs,
      context: heart,
    }));
  }

  /** Once for each silence; it is noted as soon as that can be done. */
  async warn(stale: readonly Heart[]): Promise<void> {
    const { database, events } = this.#parts;
    const hearts = stale.map(({ context }) => context);
    for (const { replicaId, silentForMs } of hearts)
      if (!this.#stale.has(replicaId)) events.emit("replica.stale", { replicaId, silentForMs });
    this.#stale = new Set(hearts.map(({ replicaId }) => replicaId));
    for (const id of this.#noted) if (!this.#stale.has(id)) this.#noted.delete(id);
    const { silences } = this.#passedBy;
    await silences.inHalves(
      hearts.filter(({ replicaId }) => !this.#noted.has(replicaId)),
      ({ replicaId }) => `noting the silence of replica ${replicaId}`,
      async (some) => {
        await noteSilences(database, some);
        for (const { replicaId } of some) this.#noted.add(replicaId);
        return [];
      },
      // Somebody who has locked the table holds up all of them.
      isAboutTheValues,
    );
    await silences.settle();
  }

  /** What a replica holds that was passed by was not met, and is neither given back nor gone. */
  async settle(): Promise<void> {
    if (this.passedBy.count === 0) await this.#passedBy.releases.settle();
  }

  recover(): Promise<void> {
    return this.#absent.recover();
  }

  /** Silent for too long for what it runs: dead. */
  #deaths(): Policy<DoubtfulHeart> {
    const { database, events, settings, isMoving } = this.#parts;
    return {
      ...{ doing: "the verdict on", isOneByOne: true },
      limitsOf: ({ context }) => heartLimits(context, settings, "running"),
      act: async ([dead]) => {
        if (!dead || isMoving()) return [];
        const { replicaId } = dead.context;
        const minMs = dead.verdict.beyondMs;
        return (await declareDead(database, replicaId, { death: deathOf(dead), minMs })) ? [dead] : [];
      },
      tell: (done) => {
        if (done.length > 0) this.#absent.lookSoon();
        for (const dead of done) events.emit("replica.dead", { ...deathOf(dead), replicaId: dead.context.replicaId });
      },
    };
  }

  /**
   * Silent for too long for what it has only claimed, and not for what it runs. A lost session is judged by the first policy, so this one leaves
   * it out.
   */
  #releases(): Policy<DoubtfulHeart> {
    const { settings, isMoving } = this.#parts;
    return {
      ...{ doing: "the verdict on", isOneByOne: true },
      limitsOf: ({ context }) => ({ ...heartLimits(context, settings, "claimed"), sessionGoneAfterMs: undefined }),
      act: async ([dead]) => {
        if (!dead || isMoving()) return [];
        await this.#release(dead);
        return [dead];
      },
      tell: () => {},
    };
  }

  async #release({ context: { replicaId }, verdict }: DeadHeart): Promise<void> {
    const { database, events } = this.#parts;
    const owner = { replicaId, minMs: verdict.beyondMs };
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
      events.emit("task.recovered", { ...claim, replicaId, action: "released", because: verdict.because });
  }
}

function deathOf({ context, verdict }: DeadHeart): VerdictRecord {
  const { machineId, hostname, silentForMs, vitals, status } = context;
  return {
    machineId: machineId ?? undefined,
    hostname,
    because: verdict.because,
    silentForMs: Math.round(silentForMs),
    vitals,
    ...(status === "draining" ? { wasDraining: true } : {}),
  };
}

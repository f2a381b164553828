/** What a follower of a task is told (pure): what happened, and the present state wherever what was told does not say it. */
import { createHash } from "node:crypto";
import type { Happening, Standing } from "../sql/following.ts";
import type { ErrorRecord } from "../task/error-record.ts";
import { type ClaimId, isUuid, type ReplicaId } from "../task/ids.ts";
import { type AttemptOutcome, type EndedState, isEnded, TASK_STATES, type TaskState } from "../task/states.ts";
import type { View } from "./stream.ts";

/** What an attempt has said of itself. `details`: null also where they are longer than 2,000 characters; those are on record. */
export interface ToldProgress {
  readonly phase: string | null;
  readonly details: unknown;
  /** From 0 to 1. */
  readonly share: number | null;
  readonly done: number | null;
  readonly total: number | null;
  readonly note: string | null;
}

interface Attempt {
  readonly claimId: ClaimId | null;
  readonly attempt: number | null;
  readonly replicaId: ReplicaId | null;
}

export type TaskNews =
  /** How it stands: first of all, and wherever something has happened that nobody has told. `missed`: something may be left out before it. */
  | ({
      readonly kind: "state";
      readonly state: TaskState;
      readonly isCancelling: boolean;
      readonly missed: boolean;
    } & Attempt &
      ToldProgress)
  | ({ readonly kind: "claimed" | "running" } & Attempt)
  | ({ readonly kind: "progress"; readonly claimId: ClaimId | null } & ToldProgress)
  /** It waits again. `because`: how its attempt has ended; "released", without having begun; "retried", by order, after it had failed. */
  | {
      readonly kind: "pending";
      readonly because: AttemptOutcome | "released" | "retried";
      /** Null where it need not wait for its time. */
      readonly dueAt: Date | null;
      readonly error: ErrorRecord | null;
    }
  | { readonly kind: "cancelling"; readonly reason: string | null }
  /** No progress for longer than its definition allows: it was warned of, or the attempt is ended. */
  | { readonly kind: "stalled"; readonly action: "alerted" | "ended" }
  /** Its replica is not alive. What becomes of the task follows. */
  | { readonly kind: "recovered"; readonly replicaId: ReplicaId | null }
  /** The reader was slow: so many updates before the next one were lost. */
  | { readonly kind: "dropped"; readonly count: number }
  /** Always the last. */
  | {
      readonly kind: "ended";
      readonly state: EndedState;
      readonly attempt: number | null;
      readonly error: ErrorRecord | null;
    };

const NO_PROGRESS: ToldProgress = { phase: null, details: null, share: null, done: null, total: null, note: null };

/** What a reader knows of the task. Of what the attempt has said, or of how the task has ended, there is only a digest. */
interface Told extends Attempt {
  readonly state: TaskState | undefined;
  readonly isCancelling: boolean;
  readonly digest: string;
}

const NOTHING: Told = {
  state: undefined,
  claimId: null,
  attempt: null,
  replicaId: null,
  isCancelling: false,
  digest: digestOf(NO_PROGRESS),
};

/** What has been told of one task. */
export class TaskView implements View<TaskNews> {
  #told: Told = NOTHING;
  #isOver = false;

  /** Its end has been told. */
  get isOver(): boolean {
    return this.#isOver;
  }

  get told(): string {
    const { state, claimId, attempt, replicaId, isCancelling, digest } = this.#told;
    return [state, claimId, attempt, replicaId, isCancelling ? "cancelling" : "", digest].join(",");
  }

  resume(told: string): void {
    const [state, claimId = "", attempt = "", replicaId = "", cancelling, digest = ""] = told.split(",");
    this.#told = {
      state: TASK_STATES.find((name) => name === state),
      claimId: /^\d{1,18}$/.test(claimId) ? (claimId as ClaimId) : null,
      attempt: /^\d{1,9}$/.test(attempt) ? Number(attempt) : null,
      replicaId: isUuid(replicaId) ? (replicaId as ReplicaId) : null,
      isCancelling: cancelling === "cancelling",
      digest,
    };
  }

  begin(standing: Standing, missed: boolean): TaskNews | undefined {
    if (!isEnded(standing.state)) {
      this.#told = toldBy(standing);
      return stateOf(standing, missed);
    }
    // An end is told once, however late its reader comes back.
    this.#isOver = this.#isToldAs(standing);
    return this.#isOver ? undefined : this.#end(standing, toldBy(standing));
  }

  compare(standing: Standing): TaskNews | undefined {
    const isKnown = this.#isOver || (!isEnded(standing.state) && this.#isToldAs(standing));
    // Nobody has told the steps that led there.
    return isKnown ? undefined : this.begin(standing, true);
  }

  happened({ kind, claimId, details, error }: Happening, standing: Standing | undefined): TaskNews | undefined {
    // What an attempt has said may commit after the attempt has ended, and then says nothing of the next one.
    if (isBefore(claimId, this.#told.claimId)) return undefined;
    const said = (name: string) => details?.[name] ?? null;
    switch (kind) {
      case "claimed":
      case "running": {
        if (this.#told.state === kind && this.#told.claimId === claimId) return undefined;
        const known = claimId !== null && standing?.claimId === claimId ? standing : this.#told;
        const attempt = (said("attempt") ?? known.attempt) as number | null;
        const replicaId = (said("replicaId") ?? known.replicaId) as ReplicaId | null;
        this.#told = { ...NOTHING, state: kind, claimId, attempt, replicaId };
        return { kind, claimId, attempt, replicaId };
      }
      case "progress": {
        // Nobody has told that it runs: how it stands says both. Or this attempt is over.
        if (this.#told.state !== "running" || this.#told.claimId !== claimId) return undefined;
        const progress = progressOf({ ...NO_PROGRESS, ...details });
        const digest = digestOf(progress);
        if (digest === this.#told.digest) return undefined;
        this.#told = { ...this.#told, digest };
        return { kind, claimId, ...progress };
      }
      case "pending":
        this.#told = { ...NOTHING, state: kind, claimId: this.#told.claimId };
        return {
          kind,
          because: said("because") as AttemptOutcome | "released" | "retried",
          dueAt: typeof details?.["dueAt"] === "string" ? new Date(details["dueAt"]) : null,
          error,
        };
      case "cancelling":
        if (this.#told.isCancelling) return undefined;
        this.#told = { ...this.#told, isCancelling: true };
        return { kind, reason: said("reason") as string | null };
      case "stalled":
        return { kind, action: said("action") as "alerted" | "ended" };
      case "recovered":
        return { kind, replicaId: said("replicaId") as ReplicaId | null };
      case "ended": {
        const isOnRecord = standing && isEnded(standing.state) && standing.claimId === claimId;
        if (isOnRecord) return this.#end(standing, toldBy(standing));
        // It was started over meanwhile, and may have ended once more.
        const state = said("state") as EndedState;
        return this.#end({ ...this.#told, error }, { ...this.#told, state });
      }
      default:
        // Of a newer release.
        return undefined;
    }
  }

  #end({ attempt, error }: Pick<Standing, "attempt" | "error">, told: Told): TaskNews {
    this.#isOver = true;
    this.#told = told;
    return { kind: "ended", state: told.state as EndedState, attempt, error };
  }

  #isToldAs(standing: Standing): boolean {
    const told = this.#told;
    if (told.state !== standing.state || told.isCancelling !== standing.isCancelling) return false;
    if (standing.state === "pending") return true;
    return told.claimId === standing.claimId && told.digest === toldBy(standing).digest;
  }
}

function stateOf(standing: Standing, missed: boolean): TaskNews {
  const { state, isCancelling, claimId, attempt, replicaId } = standing;
  return { kind: "state", state, isCancelling, missed, claimId, attempt, replicaId, ...progressOf(standing) };
}

function toldBy(standing: Standing): Told {
  const { state, isCancelling, claimId, attempt, replicaId, endedAt } = standing;
  const digest = digestOf(isEnded(state) ? endedAt : progressOf(standing));
  return { state, isCancelling, claimId, attempt, replicaId, digest };
}

function progressOf({ phase, details, share, done, total, note }: ToldProgress): ToldProgress {
  return { phase, details, share, done, total, note };
}

function digestOf(said: ToldProgress | string | null): string {
  return createHash("sha1").update(JSON.stringify(said)).digest("base64url").slice(0, 12);
}

function isBefore(claimId: ClaimId | null, told: ClaimId | null): boolean {
  return claimId !== null && told !== null && BigInt(claimId) < BigInt(told);
}

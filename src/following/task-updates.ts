/** What a follower of a task is told (pure): what happened, and the present state wherever what was told does not say it. */
import type { Happening, Standing } from "../sql/following.ts";
import type { ErrorRecord } from "../task/error-record.ts";
import type { ClaimId, ReplicaId } from "../task/ids.ts";
import { type AttemptOutcome, type EndedState, isEnded, type TaskState } from "../task/states.ts";
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

interface Told extends Attempt, ToldProgress {
  readonly state: TaskState | undefined;
  readonly isCancelling: boolean;
}

/** Somebody who has told nothing of it, and does not know what was told before. */
const UNKNOWN: Told = {
  state: undefined,
  claimId: null,
  attempt: null,
  replicaId: null,
  isCancelling: false,
  ...NO_PROGRESS,
};

/** What has been told of one task. */
export class TaskView implements View<TaskNews> {
  #told: Told = UNKNOWN;
  #isOver = false;

  /** Its end has been told. */
  get isOver(): boolean {
    return this.#isOver;
  }

  begin(standing: Standing, missed: boolean): TaskNews[] {
    this.#told = toldBy(standing);
    return isEnded(standing.state) ? [this.#end(standing)] : [stateOf(standing, missed)];
  }

  compare(standing: Standing): TaskNews[] {
    return this.#isOver || this.#isToldAs(standing) ? [] : this.begin(standing, false);
  }

  adopt(standing: Standing): TaskNews[] {
    if (this.#isOver) return [];
    this.#told = toldBy(standing);
    return isEnded(standing.state) ? [this.#end(standing)] : [];
  }

  happened({ kind, claimId, details, at }: Happening, standing: Standing | undefined): TaskNews[] {
    // What an attempt has said may commit after the attempt has ended, and then says nothing of the next one.
    if (isBefore(claimId, this.#told.claimId)) return [];
    const said = (name: string) => details?.[name] ?? null;
    switch (kind) {
      case "claimed":
      case "running": {
        const known = claimId !== null && standing?.claimId === claimId ? standing : this.#told;
        const attempt = (said("attempt") ?? known.attempt) as number | null;
        const replicaId = (said("replicaId") ?? known.replicaId) as ReplicaId | null;
        if (this.#told.state === kind && this.#told.claimId === claimId) return [];
        this.#told = { ...UNKNOWN, state: kind, claimId, attempt, replicaId };
        return [{ kind, claimId, attempt, replicaId }];
      }
      case "progress": {
        const started = this.#told.claimId === claimId ? [] : this.happened(runningOf(claimId, at), standing);
        const progress = progressOf({ ...NO_PROGRESS, ...details });
        if (isSame(progress, progressOf(this.#told))) return started;
        this.#told = { ...this.#told, ...progress };
        return [...started, { kind, claimId, ...progress }];
      }
      case "pending":
        this.#told = { ...UNKNOWN, state: kind, claimId: this.#told.claimId };
        return [
          {
            kind,
            because: said("because") as AttemptOutcome | "released" | "retried",
            dueAt: typeof details?.["dueAt"] === "string" ? new Date(details["dueAt"]) : null,
            error: said("error") as ErrorRecord | null,
          },
        ];
      case "cancelling":
        if (this.#told.isCancelling) return [];
        this.#told = { ...this.#told, isCancelling: true };
        return [{ kind, reason: said("reason") as string | null }];
      case "stalled":
        return [{ kind, action: said("action") as "alerted" | "ended" }];
      case "recovered":
        return [{ kind, replicaId: said("replicaId") as ReplicaId | null }];
      case "ended": {
        const isLast = standing !== undefined && isEnded(standing.state);
        return [this.#end(isLast ? standing : { ...this.#told, state: said("state") as EndedState, error: null })];
      }
      default:
        // Of a newer release.
        return [];
    }
  }

  #end({ state, attempt, error }: Pick<Standing, "attempt" | "error"> & { state: TaskState }): TaskNews {
    this.#isOver = true;
    return { kind: "ended", state: state as EndedState, attempt, error };
  }

  #isToldAs(standing: Standing): boolean {
    const told = this.#told;
    if (told.state !== standing.state || told.isCancelling !== standing.isCancelling) return false;
    if (standing.state === "pending") return true;
    // A process that comes back under another id takes its claims along.
    return (
      told.claimId === standing.claimId &&
      told.replicaId === standing.replicaId &&
      isSame(progressOf(told), progressOf(standing))
    );
  }
}

function stateOf(standing: Standing, missed: boolean): TaskNews {
  const { state, isCancelling, claimId, attempt, replicaId } = standing;
  return { kind: "state", state, isCancelling, missed, claimId, attempt, replicaId, ...progressOf(standing) };
}

function toldBy(standing: Standing): Told {
  const { state, isCancelling, claimId, attempt, replicaId } = standing;
  return { state, isCancelling, claimId, attempt, replicaId, ...progressOf(standing) };
}

function runningOf(claimId: ClaimId | null, at: string): Happening {
  return { id: "0", xact: "0", topic: "", at, kind: "running", claimId, details: null };
}

function progressOf({ phase, details, share, done, total, note }: ToldProgress): ToldProgress {
  return { phase, details, share, done, total, note };
}

function isSame(one: ToldProgress, other: ToldProgress): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function isBefore(claimId: ClaimId | null, told: ClaimId | null): boolean {
  return claimId !== null && told !== null && BigInt(claimId) < BigInt(told);
}

/**
 * Watches from the heart's thread whether the main thread turns its loop.
 *
 *   turns ──▶ blocked ──stackAfter──▶ noted, with its stack ──2×, 4×…──▶ noted again ──▶ turns: said, and how long it took
 *                │
 *                └── past a task's timeout, or endAfter ──▶ outcome written, replica declared dead ──▶ the process is ended
 */
import { formatDuration } from "../config/duration.ts";
import type { Store } from "../database/database.ts";
import { endBlockedReplica, noteBlockedLoop, noteLoopTurned, readTimedOut } from "../sql/blocked-loops.ts";
import type { ReplicaId } from "../task/ids.ts";
import { firstFrame } from "../task/stack-frames.ts";
import { type BlockedLoopPolicy, blockageOn, blockedForMs } from "./blockage.ts";
import type { SharedDeadlines } from "./deadlines.ts";
import type { HeartNews } from "./heart-loop.ts";
import type { MainStack } from "./main-stack.ts";
import { timedOutOutcome } from "./timed-out.ts";

export interface LoopWatchParts {
  readonly replicaId: ReplicaId;
  readonly hostname: string;
  readonly policy: BlockedLoopPolicy;
  /** When the main thread's loop last turned. */
  readonly tickedAtMs: () => number;
  readonly deadlines: Pick<SharedDeadlines, "passedBy">;
  readonly steadyNow: () => number;
  /** Undefined while the database is away: then what there is to write waits. */
  readonly store: () => Store | undefined;
  readonly readStack: () => Promise<MainStack>;
  readonly tell: (news: HeartNews) => void;
  readonly endProcess: () => void;
}

/** What is on record of the present blockage. */
interface Noted {
  readonly id: string;
  readonly tickedAtMs: number;
  readonly atMs: number;
  readonly stack: string | undefined;
}

/** A watcher that comes this late was asleep itself. */
const ASLEEP_MS = 1_000;

export class LoopWatch {
  readonly #parts: LoopWatchParts;
  #timer: NodeJS.Timeout | undefined;
  #lookedAtMs: number;
  #awakeSinceMs: number;
  #isLooking = false;
  #noted: Noted | undefined;

  constructor(parts: LoopWatchParts) {
    this.#parts = parts;
    this.#lookedAtMs = parts.steadyNow();
    this.#awakeSinceMs = this.#lookedAtMs;
  }

  start(): void {
    this.#timer = setInterval(() => this.#wake(), Math.min(250, this.#parts.policy.stackAfterMs / 4));
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #wake(): void {
    const nowMs = this.#parts.steadyNow();
    if (nowMs - this.#lookedAtMs > ASLEEP_MS) this.#awakeSinceMs = nowMs;
    this.#lookedAtMs = nowMs;
    if (this.#isLooking) return;
    this.#isLooking = true;
    // What could not be written now is written by a later look.
    void this.look(nowMs)
      .catch(() => {})
      .finally(() => {
        this.#isLooking = false;
      });
  }

  async look(nowMs: number): Promise<void> {
    const { policy, deadlines, tickedAtMs: lastTick } = this.#parts;
    const tickedAtMs = lastTick();
    if (this.#noted && tickedAtMs > this.#noted.tickedAtMs) await this.#onTurned(this.#noted, tickedAtMs);
    const blockedMs = blockedForMs({ nowMs, tickedAtMs, awakeSinceMs: this.#awakeSinceMs });
    const passed = blockedMs < policy.timeoutGraceMs ? [] : deadlines.passedBy(nowMs);
    const overdueForMs = passed.length === 0 ? undefined : nowMs - Math.min(...passed.map(({ atMs }) => atMs));
    const action = blockageOn({ blockedForMs: blockedMs, notedAtMs: this.#noted?.atMs, overdueForMs }, policy);
    if (action === "wait") return;
    const { stack, tookMs } = await this.#parts.readStack();
    // It turns again: there is nothing to say, or the next look will say it.
    const isOver = () => lastTick() !== tickedAtMs;
    if (isOver()) return;
    await this.#note({ blockedMs, tickedAtMs, stack, pausedMs: stack === undefined ? undefined : tookMs });
    if (action === "note" || isOver()) return;
    const late = passed.filter(({ atMs }) => nowMs - atMs >= policy.timeoutGraceMs);
    await this.#end(blockedMs, action === "end-timed-out" ? late : []);
  }

  async #note(sight: {
    blockedMs: number;
    tickedAtMs: number;
    stack: string | undefined;
    pausedMs: number | undefined;
  }) {
    const { replicaId, hostname } = this.#parts;
    const { blockedMs, tickedAtMs, pausedMs } = sight;
    const stack = sight.stack ?? this.#noted?.stack;
    const where = stack === undefined ? "in native code, or where it could not be asked" : `in: ${firstFrame(stack)}`;
    const message = `The event loop of replica ${replicaId} on ${hostname} has been blocked for ${formatDuration(blockedMs)}, ${where}.`;
    const id = await noteBlockedLoop(this.#store(), replicaId, this.#noted?.id, {
      blockedMs,
      stack,
      pausedMs,
      message,
    });
    if (id !== undefined) this.#noted = { id, tickedAtMs, atMs: blockedMs, stack };
  }

  async #onTurned({ id, tickedAtMs, stack }: Noted, turnedAtMs: number): Promise<void> {
    const blockedMs = turnedAtMs - tickedAtMs;
    await noteLoopTurned(this.#store(), this.#parts.replicaId, id, blockedMs);
    this.#noted = undefined;
    this.#parts.tell({ kind: "unblocked", blockedForMs: blockedMs, stack });
  }

  /**
   * Written first, and ended only then: without it, the end of this process would be a crash of everything in its hands. While
   * the database cannot be reached, self-fencing sees to it that the process does not outlive its claims.
   */
  async #end(blockedMs: number, late: ReturnType<SharedDeadlines["passedBy"]>): Promise<void> {
    const { replicaId, hostname, endProcess } = this.#parts;
    const store = this.#store();
    const stack = this.#noted?.stack;
    const claims = late.map(({ claimId }) => claimId);
    const running = claims.length === 0 ? [] : await readTimedOut(store, replicaId, claims);
    const deadlineOf = new Map(late.map((deadline) => [deadline.claimId, deadline]));
    const outcomes = running.flatMap((claim) => {
      const deadline = deadlineOf.get(claim.claimId);
      return deadline ? [timedOutOutcome({ claim, deadline, replicaId, stack, random: Math.random() })] : [];
    });
    // Where a task is known to be at fault, the others are not.
    const isCharged = late.length === 0;
    const death = {
      replicaId,
      hostname,
      because: "loop-blocked",
      blockedForMs: Math.round(blockedMs),
      isCharged,
      stack,
    };
    await endBlockedReplica(store, replicaId, { outcomes, death });
    endProcess();
  }

  #store(): Store {
    const store = this.#parts.store();
    if (!store) throw new Error("the database is away");
    return store;
  }
}

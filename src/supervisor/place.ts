/**
 * One of the places that a supervisor keeps filled: a child that ends is reported and followed by another, and one that is
 * to be replaced goes on until its successor is ready.
 *
 *   start ──▶ child ──exit──▶ report ──▶ restart? ──pause──▶ child …
 *                                           └──crash loop──▶ empty, until the next roll
 */
import type { ChildProcess } from "node:child_process";
import { delay } from "../database/backoff.ts";
import type { ChildRef, Events } from "../events.ts";
import type { ReplicaId } from "../task/ids.ts";
import { atMost } from "../worker/waiting.ts";
import { Child, type Exit } from "./child.ts";
import { type RestartPolicy, type RolledPlace, restartDecision } from "./restart.ts";

export interface PlaceParts {
  readonly number: number;
  readonly spawn: (child: number) => ChildProcess;
  readonly events: Events;
  readonly policy: RestartPolicy;
  readonly leaveWithinMs: number;
  readonly readyWithinMs: number;
  /** Resolves when the database knows of it. */
  readonly report: (child: Child, exit: Exit) => Promise<void>;
  readonly onWell: () => void;
  readonly onLooping: (exitsInARow: number, last: Exit) => void;
  readonly onError: (error: unknown, doing: string) => void;
  /** A child has ended, or what follows from that has been decided. */
  readonly onSettled: () => void;
}

const NEVER_BEGAN: Exit = { exitCode: null, signal: null };

export class Place {
  readonly #parts: PlaceParts;
  readonly #stopping = new AbortController();
  /** All its processes: the one in its place, its successor, those that are leaving. */
  readonly #children = new Set<Child>();
  #current: Child | undefined;
  #exitsInARow = 0;
  #isLooping = false;
  #hasFailedToLeave = false;

  constructor(parts: PlaceParts) {
    this.#parts = parts;
  }

  get forRoll(): RolledPlace {
    return { child: this.#parts.number, startedAtMs: this.#current?.startedAtMs };
  }

  /** Of all its processes that are there. */
  get replicaIds(): ReplicaId[] {
    return [...this.#children].flatMap(({ replicaIds }) => [...replicaIds]);
  }

  /** All its processes that are there. */
  get children(): readonly Child[] {
    return [...this.#children];
  }

  /** Nobody is here, and nobody will be. */
  get isOver(): boolean {
    return this.#children.size === 0 && (this.#isLooping || this.#stopping.signal.aborted);
  }

  /** A child that was asked to leave ended in another way. */
  get hasFailedToLeave(): boolean {
    return this.#hasFailedToLeave;
  }

  /** Undefined: no process could be made. That counts like one that ended at once. */
  start(): Child | undefined {
    this.#current = this.#begin();
    if (!this.#current) void this.#startAgain(undefined, NEVER_BEGAN).then(() => this.#parts.onSettled());
    return this.#current;
  }

  /** The new child first; the old one leaves when that is ready. False: it did not become ready, and all is as before. */
  async roll(): Promise<boolean> {
    const successor = this.#begin();
    if (!successor) return false;
    await atMost(this.#parts.readyWithinMs, successor.settled);
    if (!successor.isReady) {
      successor.kill();
      await successor.exited;
      return false;
    }
    const before = this.#current;
    this.#current = successor;
    this.#isLooping = false;
    this.#exitsInARow = 0;
    if (before && !this.#stopping.signal.aborted) {
      this.#ask(before, false);
      await before.exited;
    }
    return true;
  }

  leave(how: { now: boolean }): void {
    this.#stopping.abort();
    for (const child of this.#children) this.#ask(child, how.now);
    this.#parts.onSettled();
  }

  kill(): void {
    this.#stopping.abort();
    for (const child of this.#children) child.kill();
  }

  #begin(): Child | undefined {
    const { number, spawn, events, leaveWithinMs, onError } = this.#parts;
    let process: ChildProcess;
    try {
      process = spawn(number);
    } catch (error) {
      // No memory for another process, for one: the others must not suffer for it.
      onError(error, `starting child ${number}`);
      return undefined;
    }
    const child: Child = new Child({
      ...{ number, leaveWithinMs, process },
      onReady: (replicaId: ReplicaId) => {
        events.emit("child.ready", { ...refOf(child), replicaId });
        this.#parts.onWell();
      },
    });
    this.#children.add(child);
    events.emit("child.started", refOf(child));
    void child.exited.then((exit) => this.#onExit(child, exit));
    return child;
  }

  #ask(child: Child, now: boolean): void {
    if (child.hasExited) return;
    this.#parts.events.emit("child.leaving", { ...refOf(child), now });
    child.ask({ everbeat: now ? "leave-now" : "leave" });
  }

  async #onExit(child: Child, exit: Exit): Promise<void> {
    const { events, report, onSettled } = this.#parts;
    const { readyForMs } = child;
    events.emit("child.exited", { ...refOf(child), ...exit, wasAsked: child.wasAsked });
    // One that had not joined yet may be ended by a signal as any process is: it had nothing to leave behind.
    if (child.wasAsked && exit.exitCode !== 0 && child.replicaId !== undefined) this.#hasFailedToLeave = true;
    const wasCurrent = child === this.#current;
    if (wasCurrent) this.#current = undefined;
    this.#children.delete(child);
    onSettled();
    // Before another is started: those that are there can take over its tasks.
    await report(child, exit);
    if (wasCurrent && !this.#current) await this.#startAgain(readyForMs, exit);
    onSettled();
  }

  async #startAgain(readyForMs: number | undefined, exit: Exit): Promise<void> {
    if (this.#stopping.signal.aborted) return;
    const { number, events, policy, onLooping } = this.#parts;
    const decision = restartDecision({ exitsInARow: this.#exitsInARow, readyForMs }, policy, Math.random());
    this.#exitsInARow = decision.exitsInARow;
    if (decision.kind === "crash-loop") {
      this.#isLooping = true;
      events.emit("child.looping", { child: number, exitsInARow: decision.exitsInARow });
      onLooping(decision.exitsInARow, exit);
      return;
    }
    events.emit("child.restarting", { child: number, ...decision });
    await delay(decision.pauseMs, this.#stopping.signal);
    // A roll may have filled the place in the meantime.
    if (!this.#stopping.signal.aborted && !this.#current) this.start();
  }
}

function refOf({ number, pid, replicaId }: Child): ChildRef {
  return { child: number, pid, replicaId };
}

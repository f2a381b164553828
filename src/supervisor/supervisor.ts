/**
 * The supervisor: keeps a number of replicas running, each in a process of its own, and tells the database of an exit the
 * moment it happens, so that nobody has to wait for a silence. It runs no task, so that no task can hold it up.
 */
import type { ChildProcess } from "node:child_process";
import { Alerts } from "../alerts/alerts.ts";
import { Events } from "../events.ts";
import type { Everbeat } from "../everbeat.ts";
import { GrowthWatch } from "../heart/growth.ts";
import type { Logger } from "../log.ts";
import { logEvents } from "../log-events.ts";
import type { ExitOptions } from "../recovery/exit-options.ts";
import { causeOf } from "../recovery/recovery-action.ts";
import { SERVICES } from "../services/list.ts";
import { ProcessServices } from "../services/process-services.ts";
import { createService } from "../services/service.ts";
import { readClock } from "../sql/clock.ts";
import { toErrorRecord } from "../task/error-record.ts";
import type { ReplicaId } from "../task/ids.ts";
import { atMost, Changes } from "../worker/waiting.ts";
import type { Child, Exit } from "./child.ts";
import { DurableWords, REPLY_WITHIN_MS } from "./durable-words.ts";
import { Place } from "./place.ts";
import { type RestartPolicy, rollOrder } from "./restart.ts";
import { StillChildren } from "./still-children.ts";

/** How long the first child may take before the others follow: what is wrong for all of them is said once. */
const FIRST_ALONE_MS = 10_000;
/** How long a new child may take to become ready before a roll is stopped. */
const READY_WITHIN_MS = 60_000;
/** Beyond the grace for running tasks: to abort them, and to write the last outcomes. */
const LEAVE_MARGIN_MS = 60_000;
/** How long a supervisor without children goes on trying to tell the database of their exits. */
const LAST_WORDS_MS = 10_000;
const LAST_WORDS_IN_HURRY_MS = 1_000;

/** Their ends are known one after the other. */
const AT_ONCE_MS = 2_000;
/** By the kernel, or by somebody else. A shell says 128 and the signal's number. */
const KILLED = /^(SIGKILL|137)$/;

export interface SupervisorParts {
  /** A connection of its own to where its children work. */
  readonly everbeat: Everbeat;
  readonly log: Logger;
  readonly processes: number;
  /** Starts a process that runs a worker, with a channel to its parent. */
  readonly spawn: (child: number) => ChildProcess;
  readonly restart: RestartPolicy;
  readonly gracesMs: number;
  /** Tells its alerts from those of other supervisors. */
  readonly name: string;
}

export type SupervisorEnd =
  /** All children left as they were asked to. */
  | "left"
  /** Some had to be killed, or could not leave cleanly. */
  | "left-badly"
  /** Every place is in a crash loop. */
  | "none-left"
  /** The first child said that what it was given cannot be run. */
  | "refused";

export class Supervisor {
  readonly #parts: SupervisorParts;
  readonly #events: Events;
  readonly #words: DurableWords;
  readonly #alerts: Alerts;
  readonly #places: readonly Place[];
  readonly #changes = new Changes();
  readonly #background: ProcessServices;
  /** Of the cgroup that its children share with it, unless somebody has moved them to another. */
  readonly #groupMemory = new GrowthWatch(() =>
    this.#places.flatMap((place) => place.children.flatMap(({ pid }) => pid ?? [])),
  );
  #justKilled: { readonly replicaId: ReplicaId; readonly atMs: number }[] = [];
  #hasStarted = false;
  #isLeaving = false;
  #isInHurry = false;
  #mustRoll = false;
  #isRolling = false;

  constructor(parts: SupervisorParts) {
    this.#parts = parts;
    const fail = (error: unknown, doing: string) =>
      parts.log.error({ error: toErrorRecord(error, "ERROR") }, `the supervisor failed at ${doing}`);
    this.#events = new Events((error) => fail(error, "an event listener"));
    logEvents(this.#events, parts.log);
    this.#words = new DurableWords(this.#events, fail);
    const database = parts.everbeat.database.withReplyWithin(REPLY_WITHIN_MS);
    this.#alerts = new Alerts({ database, onRefused: (error) => fail(error, "writing an alert") });
    const still = new StillChildren({
      store: database,
      children: () => this.#places.flatMap(({ children }) => children),
      onStill: (child) => this.#endStill(child),
    });
    // What is wrong with the database is said by whoever has something to tell it.
    const quietly = (name: "database look" | "shared memory" | "still children", runOnce: () => Promise<void>) =>
      createService({ name, intervalMs: SERVICES[name].everyMs, runOnce, onError: () => {} });
    this.#background = new ProcessServices([
      quietly("database look", async () => void (await readClock(parts.everbeat.database))),
      quietly("shared memory", async () => this.#groupMemory.look()),
      quietly("still children", () => still.look()),
    ]);
    this.#places = Array.from({ length: parts.processes }, (_, index) => this.#createPlace(index + 1, fail));
  }

  /** Resolves when no child is left: they were asked to leave, or none can be kept running. */
  async run(): Promise<SupervisorEnd> {
    this.#background.start();
    const [firstPlace, ...others] = this.#places;
    const first = firstPlace?.start();
    await atMost(FIRST_ALONE_MS, first?.settled ?? Promise.resolve());
    if (first?.refused) this.leave({ now: true });
    if (!this.#isLeaving) for (const place of others) place.start();
    this.#hasStarted = true;
    void this.#rollWhileAsked();
    const isOver = () => this.#places.every((place) => place.isOver) && !this.#isRolling;
    while (!isOver()) await this.#changes.until(isOver, 60_000);
    const told = this.#words.told().then(() => this.#alerts.written());
    await atMost(this.#isInHurry ? LAST_WORDS_IN_HURRY_MS : LAST_WORDS_MS, told);
    this.#words.stop();
    this.#alerts.stop();
    void this.#background.stop();
    if (first?.refused) return "refused";
    if (!this.#isLeaving) return "none-left";
    return this.#places.some((place) => place.hasFailedToLeave) ? "left-badly" : "left";
  }

  /** Replaces every child, one at a time. Asked again meanwhile, it does so once more. */
  roll(): void {
    this.#mustRoll = true;
    if (this.#hasStarted) void this.#rollWhileAsked();
  }

  leave({ now }: { now: boolean }): void {
    this.#isLeaving = true;
    this.#isInHurry ||= now;
    for (const place of this.#places) place.leave({ now });
  }

  /** Without asking. */
  kill(): void {
    this.leave({ now: true });
    for (const place of this.#places) place.kill();
  }

  async #rollWhileAsked(): Promise<void> {
    if (this.#isRolling) return;
    this.#isRolling = true;
    while (this.#mustRoll && !this.#isLeaving) {
      this.#mustRoll = false;
      await this.#rollOnce();
    }
    this.#isRolling = false;
    this.#changes.announce();
  }

  async #rollOnce(): Promise<void> {
    const { name } = this.#parts;
    const children = rollOrder(this.#places.map((place) => place.forRoll));
    this.#events.emit("roll.begun", { children });
    for (const child of children) {
      const isReplaced = await this.#places[child - 1]?.roll();
      if (this.#isLeaving) return;
      if (isReplaced) continue;
      this.#events.emit("roll.stopped", { child });
      const message = `The new child ${child} of the supervisor ${name} did not become ready, so its rolling restart was stopped.`;
      void this.#alerts.raise({ kind: "roll-stopped", subject: name, message });
      return;
    }
    this.#events.emit("roll.done", { children });
    this.#alerts.resolve("roll-stopped", name);
  }

  #createPlace(number: number, onError: (error: unknown, doing: string) => void): Place {
    const { spawn, restart, gracesMs } = this.#parts;
    const subject = this.#subjectOf(number);
    return new Place({
      ...{ number, spawn, events: this.#events, policy: restart, readyWithinMs: READY_WITHIN_MS, onError },
      leaveWithinMs: gracesMs + LEAVE_MARGIN_MS,
      report: (child, exit) => this.#report(child, exit),
      onWell: () => {
        this.#alerts.resolve("crash-loop", subject);
        this.#alerts.resolve("child-still", subject);
      },
      onLooping: (exitsInARow, last) => {
        const cause = causeOf({ because: "exited", ...last });
        const message = `Child ${number} of the supervisor ${this.#parts.name} ended ${exitsInARow} times in a row and is not started again: ${cause}.`;
        const details = { child: number, exitsInARow, ...last };
        void this.#alerts.raise({ kind: "crash-loop", subject, message, details });
      },
      onSettled: () => this.#changes.announce(),
    });
  }

  /** It may go on at any moment, so it is ended first; its exit has another one started. */
  #endStill(child: Child): void {
    const { number, pid, replicaId } = child;
    child.kill();
    this.#events.emit("child.still", { child: number, pid, replicaId });
    const message = `Child ${number} of the supervisor ${this.#parts.name} (process ${pid}) stood still, its replica had been declared dead, and it did not answer: the supervisor has killed it to start another.`;
    void this.#alerts.raise({ kind: "child-still", subject: this.#subjectOf(number), message });
  }

  #subjectOf(child: number): string {
    return `${this.#parts.name}, child ${child}`;
  }

  /** One that never joined shows at least whether there is a database. */
  async #report(child: Child, exit: Exit): Promise<void> {
    const { everbeat } = this.#parts;
    // At once: its memory is given back by now, and what the kernel counts is not about it for long.
    const group = KILLED.test(`${exit.signal ?? exit.exitCode}`) ? this.#groupMemory.sign(child.pid) : undefined;
    const sharedWith = group && this.#sharersOf(child);
    if (child.replicaIds.size === 0) await this.#words.say("reporting an exit", () => readClock(everbeat.database));
    // Each by itself: one that the database refuses does not keep the others from being reported.
    for (const id of child.replicaIds)
      await this.#words.say("reporting an exit", () =>
        this.#reportReplica(id, { ...exit, group, sharedWith, wasAsked: child.isToGo }),
      );
  }

  /** The kernel may kill several at once. One that had ended before this one was started is not among them, such as the one before in its place. */
  #sharersOf({ replicaIds, startedAtMs }: Child): ReplicaId[] | undefined {
    const nowMs = performance.now();
    const others = this.#places.flatMap((place) => place.replicaIds);
    this.#justKilled = this.#justKilled.filter(({ atMs }) => nowMs - atMs < AT_ONCE_MS);
    const killedBeside = this.#justKilled.filter(({ atMs }) => atMs > startedAtMs);
    const sharers = [...others, ...killedBeside.map(({ replicaId }) => replicaId)];
    this.#justKilled.push(...[...replicaIds].map((replicaId) => ({ replicaId, atMs: nowMs })));
    return sharers.length > 0 ? sharers : undefined;
  }

  /** One that has left is off the record, and nothing follows. */
  async #reportReplica(replicaId: ReplicaId, exit: ExitOptions): Promise<void> {
    const { everbeat, log } = this.#parts;
    const { verdict } = await everbeat.recovery.reportExit(replicaId, exit);
    if (verdict === "session-held")
      log.warn({ replicaId }, "its database session goes on without it; it is left to the verdict on its silence");
    if (verdict === "locked")
      log.warn({ replicaId }, "another transaction has locked its row; it is left to the verdict on its silence");
  }
}

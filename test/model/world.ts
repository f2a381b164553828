/** A world of a few machines and one database, to which steps are done, one by one. */
import { Events } from "../../src/events.ts";
import type { Everbeat } from "../../src/everbeat.ts";
import { confirmHolds } from "../../src/sql/holds.ts";
import { saveDefinitions } from "../../src/sql/replicas.ts";
import { createReaper } from "../support/sweeping.ts";
import { checkRecord } from "./check-record.ts";
import { Chronicle } from "./chronicle.ts";
import { KINDS, LIMITED_QUEUE, settingsOf } from "./kinds.ts";
import type { Memory, Point } from "./memory.ts";
import { Process } from "./process.ts";
import { readHold, readRecord } from "./read-record.ts";
import type { Happening, History } from "./record.ts";
import type { Sessions } from "./sessions.ts";
import type { Run, Step } from "./steps.ts";
import { emptyTables } from "./tables.ts";

const MOST_PROCESSES = 8;
const TICK_MS = 18_000;

type Of<Do extends Step["do"]> = Extract<Step, { do: Do }>;

/** Plays a run in an empty database; returns what the checker says of it. */
export async function play(
  parts: { everbeat: Everbeat; sessions: Sessions; memory: Memory },
  run: Run,
): Promise<Played> {
  // Claim ids go on growing.
  await emptyTables(parts.everbeat.database);
  const chronicle = await Chronicle.begin(parts.everbeat.database);
  const world = new World({ ...parts, chronicle });
  try {
    await world.begin(run);
    for (const step of run.steps) await world.do(step);
    const record = await readRecord(parts.everbeat.database, chronicle.movedMs);
    return { problems: checkRecord(chronicle.history, record), history: chronicle.history };
  } finally {
    await parts.sessions.endAll();
  }
}

export interface Played {
  readonly problems: readonly string[];
  readonly history: History;
}

class World {
  readonly #everbeat: Everbeat;
  readonly #sessions: Sessions;
  readonly #memory: Memory;
  readonly #chronicle: Chronicle;
  readonly #processes: Process[] = [];
  #remembered: { readonly point: Point; readonly movedMs: number } | undefined;
  #turn = 0;

  constructor(parts: { everbeat: Everbeat; sessions: Sessions; memory: Memory; chronicle: Chronicle }) {
    this.#everbeat = parts.everbeat;
    this.#sessions = parts.sessions;
    this.#memory = parts.memory;
    this.#chronicle = parts.chronicle;
  }

  async begin({ fleet, isBusy }: Run): Promise<void> {
    await this.#everbeat.queues.set(LIMITED_QUEUE.name, { concurrency: LIMITED_QUEUE.concurrency });
    await saveDefinitions(
      this.#everbeat.database,
      KINDS.map(({ task }) => task.settings),
    );
    for (const [machine, settings] of fleet.entries()) await this.#join({ do: "join", machine, settings });
    if (isBusy) {
      for (const kind of KINDS.keys()) await this.#enqueue({ do: "enqueue", kind, count: 2 });
      for (const process of this.#processes) await process.claim(2, 1);
    }
    await this.#chronicle.look();
  }

  async do(step: Step): Promise<void> {
    await this.#perform(step);
    await this.#chronicle.look();
  }

  async #perform(step: Step): Promise<void> {
    switch (step.do) {
      case "enqueue":
        return this.#enqueue(step);
      case "claim":
        return this.#able(step.who)?.claim(step.run, step.prefetch);
      case "start":
        return this.#able(step.who)?.start();
      case "finish":
        return this.#finish(step);
      case "beat":
        return this.#able(step.who)?.beat();
      case "kill":
        return this.#pick(step.who, ({ condition }) => condition !== "gone")?.kill();
      case "pause":
        return this.#pause(step);
      case "wake":
        return this.#wake(step);
      case "cut":
        return this.#pick(step.who, ({ condition, isCut }) => condition === "working" && !isCut)?.cut(step.isSeen);
      case "heal":
        return this.#heal(step);
      case "strike":
        return this.#strike(step);
      case "notice":
        return this.#each(
          ({ hasHalfOpen }) => hasHalfOpen,
          (process) => process.dropHalfOpen(),
        );
      case "leave":
        return this.#able(step.who)?.leave();
      case "join":
        return this.#join(step);
      case "restart":
        return this.#restart();
      case "remember":
        return this.#remember();
      case "forget":
        return this.#forget();
      case "sweep":
        return this.#sweep(step.who);
      case "confirm":
        return this.#confirm();
      case "pass":
        return this.#pass(step.seconds * 1_000);
      case "live":
        return this.#live(step.seconds * 1_000);
    }
  }

  async #enqueue({ kind, count }: Of<"enqueue">): Promise<void> {
    const { task, exclusive } = KINDS[kind % KINDS.length] as (typeof KINDS)[number];
    const options = exclusive ? { exclusiveKey: exclusive.key, exclusiveLimit: exclusive.limit } : {};
    await this.#chronicle.during(
      () => this.#everbeat.enqueueMany(task as never, new Array(count).fill({}) as never, { options } as never),
      (ids) => ids.map((id) => ({ kind: "enqueued", task: id, exclusive })),
    );
  }

  async #finish({ who, which, how }: Of<"finish">): Promise<void> {
    const process = this.#pick(who, ({ isAble, hand }) => isAble && [...hand.values()].some((own) => own.isStarted));
    const begun = [...(process?.hand.values() ?? [])].filter(({ isStarted }) => isStarted);
    const own = begun[which % begun.length];
    if (!process || !own) return;
    if (how === "in-transaction") return process.inTransaction(own, "complete");
    if (how === "guarded") return process.inTransaction(own, "guard");
    if (how === "in-a-round") return process.round([{ own, ending: "complete" }], { run: 1, prefetch: 1 });
    return process.finish(own, how);
  }

  async #pause({ who }: Of<"pause">): Promise<void> {
    const process = this.#pick(who, ({ condition }) => condition === "working");
    if (process) process.condition = "paused";
  }

  async #wake({ who, tries }: Of<"wake">): Promise<void> {
    const process = this.#pick(who, ({ condition, isCut }) => condition === "paused" && !isCut);
    if (!process) return;
    process.condition = "working";
    if (tries === "every-write") await process.tryEveryWrite();
    if (tries === "only-finish") {
      const endings = [...process.hand.values()].map((own) => ({ own, ending: "complete" as const }));
      await process.round(endings, { run: 1, prefetch: 1 });
    }
    // Whether its watchdog or its next beat comes first is a matter of chance.
    if (tries === "every-write") await process.beat();
    await process.watch();
    if (process.isAble) await process.beat();
  }

  async #strike({ spared, how }: Of<"strike">): Promise<void> {
    const left = this.#able(spared);
    await this.#each(
      (process) => process.isAble && process !== left,
      async (process) => {
        if (how === "kill") await process.kill();
        else if (how === "cut") await process.cut(true);
        else process.condition = "paused";
      },
    );
  }

  async #heal({ who, isHeard }: Of<"heal">): Promise<void> {
    const process = this.#pick(who, ({ condition, isCut }) => condition === "working" && isCut);
    if (!process) return;
    await process.heal();
    if (isHeard && process.isAble) await process.beat();
  }

  async #join({ machine, settings }: Of<"join">): Promise<void> {
    if (this.#processes.filter(({ condition }) => condition !== "gone").length >= MOST_PROCESSES) return;
    const process = new Process({
      ...{ machine: `machine-${machine}`, settings: settingsOf(settings) },
      ...{ chronicle: this.#chronicle, sessions: this.#sessions },
    });
    this.#processes.push(process);
    await process.join();
  }

  /** What a crash leaves of an unlogged table is nothing. */
  async #restart(): Promise<void> {
    const { database } = this.#everbeat;
    await this.#chronicle.during(
      async () => {
        await database.query(`delete from ${database.schema}.epoch_marker`);
        for (const process of this.#processes) await process.loseServer();
      },
      () => ({ kind: "epoch" }),
    );
  }

  async #remember(): Promise<void> {
    const point = await this.#chronicle.during(
      () => this.#memory.keep(),
      () => ({ kind: "remembered" }),
    );
    this.#remembered = { point, movedMs: this.#chronicle.movedMs };
  }

  /** Those who have lived on remember more than the server does. */
  async #forget(): Promise<void> {
    if (!this.#remembered) return;
    const { point, movedMs } = this.#remembered;
    await this.#chronicle.during(
      async () => {
        await this.#memory.putBack(point, this.#chronicle.movedMs - movedMs);
        for (const process of this.#processes) await process.loseServer();
      },
      () => [{ kind: "forgot" }, { kind: "epoch" }],
    );
  }

  async #sweep(who: number): Promise<void> {
    const process = this.#able(who);
    if (!process) return;
    const { database } = this.#everbeat;
    const { settings, replica: by } = process;
    const deaths: { replica: string; because: string }[] = [];
    const recovered: { claim: string; replica: string; action: string }[] = [];
    const events = new Events((error) => Promise.reject(error));
    events.on("replica.dead", ({ replicaId, because }) => deaths.push({ replica: replicaId, because }));
    events.on("task.recovered", ({ claimId, replicaId, action }) =>
      recovered.push({ claim: claimId, replica: replicaId, action }),
    );
    const onError = (error: unknown) => Promise.reject(error);
    await this.#chronicle.settle();
    const { movedMs, now } = this.#chronicle;
    await this.#chronicle.during(
      async () => {
        await createReaper({
          database,
          events,
          settings,
          replica: { id: by },
          isMoving: () => false,
          onError,
        }).runOnce();
        return readHold(database);
      },
      ({ sweptAt, sweptBy, heldSince, keptUntil }): Happening => ({
        ...{ kind: "swept", by, settings, deaths, recovered },
        isListening: sweptBy === by && sweptAt + movedMs >= now,
        heldSince: heldSince === null ? undefined : heldSince + movedMs,
        keptUntil: keptUntil === null ? undefined : keptUntil + movedMs,
      }),
    );
    await this.#chronicle.look();
  }

  async #confirm(): Promise<void> {
    await this.#chronicle.during(
      () => confirmHolds(this.#everbeat.database, undefined),
      () => ({ kind: "confirmed" }),
    );
  }

  async #pass(ms: number): Promise<void> {
    await this.#chronicle.pass(ms);
    for (const process of [...this.#processes]) await process.watch();
  }

  async #live(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += TICK_MS) {
      if (!this.#able(0)) return this.#pass(ms - passed);
      await this.#pass(TICK_MS);
      await this.#each(
        ({ isAble }) => isAble,
        (process) => process.beat(),
      );
      await this.#sweep(this.#turn++);
    }
  }

  #able(who: number): Process | undefined {
    return this.#pick(who, ({ isAble }) => isAble);
  }

  #pick(who: number, fits: (process: Process) => boolean): Process | undefined {
    const fitting = this.#processes.filter(fits);
    return fitting[who % fitting.length];
  }

  async #each(fits: (process: Process) => boolean, act: (process: Process) => Promise<void>): Promise<void> {
    for (const process of this.#processes.filter(fits)) await act(process);
  }
}

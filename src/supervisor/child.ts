/** One child: a process that runs a worker, what it has said of itself, and its end. */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { ReplicaId } from "../task/ids.ts";
import { Timer } from "../timer.ts";
import { atMost } from "../worker/waiting.ts";
import { readChildMessage, type SupervisorMessage } from "./messages.ts";

const LAST_WORDS_MS = 100;

export interface Exit {
  /** Null where a signal ended it, and where it could not be started at all. */
  readonly exitCode: number | null;
  readonly signal: string | null;
}

export class Child {
  readonly number: number;
  readonly startedAtMs = performance.now();
  readonly exited: Promise<Exit>;
  /** Resolves when it is ready, or has ended. */
  readonly settled: Promise<void>;
  /** Every id under which it has worked: all of them end with it. */
  readonly replicaIds = new Set<ReplicaId>();
  readonly #process: ChildProcess;
  readonly #leaveWithinMs: number;
  #readyAtMs: number | undefined;
  #refused = false;
  #wasAsked = false;
  #wasKilled = false;
  #hasExited = false;
  #answers = 0;
  #patience: Timer | undefined;

  constructor(options: {
    number: number;
    process: ChildProcess;
    /** One that was asked to leave and is still there after this long is killed. */
    leaveWithinMs: number;
    onReady: (replicaId: ReplicaId) => void;
  }) {
    this.number = options.number;
    this.#process = options.process;
    this.#leaveWithinMs = options.leaveWithinMs;
    const becameReady = new Promise<void>((resolve) => {
      this.#process.on("message", (text) => {
        const message = readChildMessage(text);
        if (message?.everbeat === "refused") this.#refused = true;
        else if (message?.everbeat === "here") this.#answers++;
        else if (message) this.replicaIds.add(message.replicaId);
        if (message?.everbeat !== "ready") return;
        this.#readyAtMs ??= performance.now();
        options.onReady(message.replicaId);
        resolve();
      });
    });
    this.exited = this.#untilExited();
    this.settled = Promise.race([becameReady, this.exited.then(() => {})]);
  }

  async #untilExited(): Promise<Exit> {
    const exit = await new Promise<Exit>((resolve) => {
      this.#process.once("exit", (exitCode, signal) => resolve({ exitCode, signal }));
      // Also said of a message that could not be sent; only one that never began has no exit to wait for.
      this.#process.on("error", () => this.pid === undefined && resolve({ exitCode: null, signal: null }));
    });
    this.#hasExited = true;
    this.#patience?.stop();
    // Its last words may come after its exit: who it was, for one.
    if (this.#process.connected) await atMost(LAST_WORDS_MS, once(this.#process, "disconnect"));
    return exit;
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** The one that it has now. */
  get replicaId(): ReplicaId | undefined {
    return [...this.replicaIds].at(-1);
  }

  get isReady(): boolean {
    return this.#readyAtMs !== undefined && !this.#hasExited;
  }

  get readyForMs(): number | undefined {
    return this.#readyAtMs === undefined ? undefined : performance.now() - this.#readyAtMs;
  }

  /** It said that what it was given cannot be run. */
  get refused(): boolean {
    return this.#refused;
  }

  get wasAsked(): boolean {
    return this.#wasAsked;
  }

  /** Its supervisor has asked it to leave, or has killed it. */
  get isToGo(): boolean {
    return this.#wasAsked || this.#wasKilled;
  }

  get hasExited(): boolean {
    return this.#hasExited;
  }

  /** How often it has answered `wantAnswer`. */
  get answers(): number {
    return this.#answers;
  }

  wantAnswer(): void {
    this.#send({ everbeat: "answer" });
  }

  ask(message: SupervisorMessage): void {
    this.#wasAsked = true;
    this.#send(message);
    this.#patience ??= new Timer(this.#leaveWithinMs, () => this.kill());
  }

  #send(message: SupervisorMessage): void {
    this.#process.send(message, () => {});
  }

  kill(): void {
    this.#wasKilled = true;
    this.#process.kill("SIGKILL");
  }
}

/**
 * Each handler runs in a scope of its own, to which is traced what comes from it outside of its call. A promise that it started and nobody
 * awaits may reject, and a timer or an emitter that it set up may throw: that must fail its own task, and neither end the process nor be
 * blamed on another task. And it may tell its own worker to stop.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { TaskRef } from "../events.ts";
import { FreshContext } from "./fresh-context.ts";
import { watchOwnSignals } from "./own-signals.ts";

export interface ScopeOwner {
  onStray(reason: unknown): void;
  /** It has told its own process to stop. */
  onOwnStop?(): void;
  /** Its task, once that has ended: what it has left behind may still run. */
  readonly endedTask?: TaskRef | undefined;
}

/** What a handler may do to the process that others run in as well. Both are told before they happen, and while they are waited for. */
export interface ProcessThreats {
  /** It signals the parent of this process, which may take its end for one that was asked for. */
  onParentSignalled(): void;
  /** `process.exit()` was called by what a task has left behind that has ended. */
  onLateExit(endedTask: TaskRef, exitCode: number): void;
}

export interface HandlerScopes {
  /** Runs the work; a stray error that comes from it goes to its owner. */
  scope<T>(owner: ScopeOwner, work: () => T): T;
  /** The same, in the asynchronous context in which this was set up. The work is told whose it is, so that it can be one function for all. */
  outermostScope<Owner extends ScopeOwner, T>(owner: Owner, work: (owner: Owner) => T): T;
  /** Notes that whoever is at work in this asynchronous context, if anybody is, has told the worker to stop. */
  noteOwnStop(): void;
  close(): void;
}

/** One for all workers of a process. Two would each take the other's rejections for errors of the application. */
let shared: SharedScopes | undefined;

export function openHandlerScopes(threats?: ProcessThreats): HandlerScopes {
  shared ??= new SharedScopes();
  const caught = shared;
  const { scopes } = caught;
  const outside = new FreshContext();
  const enter = <Owner extends ScopeOwner, T>(owner: Owner, work: (owner: Owner) => T): T => {
    scopes.enterWith(owner);
    return work(owner);
  };
  let isOpen = true;
  caught.users++;
  if (threats) caught.threats.add(threats);
  return {
    scope: (owner, work) => scopes.run(owner, work),
    // `scopes.run` copies the context twice, to enter and to leave it: a third of all objects that a trivial task creates.
    outermostScope: (owner, work) => outside.run(enter<typeof owner, ReturnType<typeof work>>, owner, work),
    noteOwnStop: () => caught.noteOwnStop(),
    close() {
      if (!isOpen) return;
      isOpen = false;
      if (threats) caught.threats.delete(threats);
      if (--caught.users > 0) return;
      caught.stop();
      if (shared === caught) shared = undefined;
    },
  };
}

class SharedScopes {
  readonly scopes = new AsyncLocalStorage<ScopeOwner>();
  readonly #unwatch = watchOwnSignals((isForParent) => this.#onOwnSignal(isForParent));
  readonly threats = new Set<ProcessThreats>();
  users = 0;

  constructor() {
    process.on("unhandledRejection", this.#onRejection);
    process.on("uncaughtException", this.#onException);
    process.on("exit", this.#onExit);
  }

  noteOwnStop(): void {
    this.scopes.getStore()?.onOwnStop?.();
  }

  stop(): void {
    this.#unwatch();
    process.off("unhandledRejection", this.#onRejection);
    process.off("uncaughtException", this.#onException);
    process.off("exit", this.#onExit);
  }

  #onOwnSignal(isForParent: boolean): void {
    if (this.scopes.getStore() === undefined) return;
    this.noteOwnStop();
    if (isForParent) for (const each of this.threats) each.onParentSignalled();
  }

  /** Who has called `process.exit()`, if it was a handler: this listener runs within that call. */
  readonly #onExit = (exitCode: number) => {
    const { endedTask } = this.scopes.getStore() ?? {};
    if (endedTask) for (const each of this.threats) each.onLateExit(endedTask, exitCode);
  };

  readonly #onRejection = (reason: unknown) => {
    const owner = this.scopes.getStore();
    if (owner) return owner.onStray(reason);
    // Not from a handler. Having a listener must not change what the application would have seen without ours.
    if (process.listenerCount("unhandledRejection") === 1) this.#leaveUncaught(reason);
  };

  readonly #onException = (error: unknown, origin: NodeJS.UncaughtExceptionOrigin) => {
    const owner = origin === "uncaughtException" ? this.scopes.getStore() : undefined;
    if (owner) return owner.onStray(error);
    if (process.listenerCount("uncaughtException") === 1) this.#leaveUncaught(error);
  };

  /** Ends the process as it would have ended without us. */
  #leaveUncaught(error: unknown): void {
    this.stop();
    this.scopes.exit(() =>
      setImmediate(() => {
        throw error;
      }),
    );
  }
}

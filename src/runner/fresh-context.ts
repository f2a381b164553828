/**
 * The asynchronous context of the moment in which this was made, to begin work in: whatever its caller's is, and
 * untouched by what earlier work has entered (`AsyncLocalStorage.enterWith`).
 */
import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";

export class FreshContext {
  readonly #origin = new AsyncResource("everbeat.origin");
  readonly #keepsWhatIsEntered = keepsWhatIsEntered(this.#origin);

  run<Arguments extends unknown[], T>(work: (...given: Arguments) => T, ...given: Arguments): T {
    if (!this.#keepsWhatIsEntered) return this.#origin.runInAsyncScope(work, undefined, ...given);
    const own = this.#origin.runInAsyncScope(() => new AsyncResource("everbeat.work"));
    return own.runInAsyncScope(work, undefined, ...given);
  }
}

/** Before Node 24 a resource remembers what was entered in its scope, so that each work needs one of its own. */
function keepsWhatIsEntered(resource: AsyncResource): boolean {
  const trial = new AsyncLocalStorage<boolean>();
  resource.runInAsyncScope(() => trial.enterWith(true));
  const isKept = resource.runInAsyncScope(() => trial.getStore()) === true;
  trial.disable();
  return isKept;
}

/** Whether a supervisor of Everbeat has started this process: then it leaves when the channel to it closes, and not at SIGHUP. */
const MARK = Symbol.for("everbeat.supervised");

export function markAsSupervised(): void {
  (globalThis as Record<symbol, unknown>)[MARK] = true;
}

export function isSupervised(): boolean {
  return (globalThis as Record<symbol, unknown>)[MARK] === true;
}

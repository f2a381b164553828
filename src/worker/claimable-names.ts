/** Which tasks may be claimed now: not those whose runners are all busy, or cannot be started. */
import type { AnyTask } from "../task/define-task.ts";
import type { RunIn } from "../task/settings.ts";
import type { Slots } from "./slots.ts";

export class ClaimableNames {
  readonly #all: readonly string[];
  readonly #byRunIn = new Map<RunIn, string[]>();
  readonly #slots: Slots;
  readonly #leftOut = new Set<RunIn>();

  constructor(tasks: readonly AnyTask[], slots: Slots) {
    this.#slots = slots;
    this.#all = tasks.map((task) => task.name);
    for (const { name, settings } of tasks) {
      this.#byRunIn.set(settings.runIn, [...(this.#byRunIn.get(settings.runIn) ?? []), name]);
    }
  }

  /** As of now; and remembers which were left out. */
  current(): readonly string[] {
    for (const runIn of this.#byRunIn.keys()) {
      if (this.#slots.hasRoomIn(runIn)) this.#leftOut.delete(runIn);
      else this.#leftOut.add(runIn);
    }
    if (this.#leftOut.size === 0) return this.#all;
    return [...this.#byRunIn].flatMap(([runIn, names]) => (this.#leftOut.has(runIn) ? [] : names));
  }

  /** Whether some that were left out may be claimed now. They may sort before where the search for others has come to. */
  haveGrown(): boolean {
    for (const runIn of this.#leftOut) if (this.#slots.hasRoomIn(runIn)) return true;
    return false;
  }
}

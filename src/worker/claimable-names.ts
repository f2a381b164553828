/** Which tasks may be claimed now: not those whose runners are all busy, or cannot be started. */
import type { AnyTask } from "../task/define-task.ts";
import type { RunIn } from "../task/settings.ts";
import type { Slots } from "./slots.ts";

export class ClaimableNames {
  readonly #all: readonly string[];
  readonly #byPlace = new Map<RunIn, string[]>();
  readonly #slots: Slots;
  readonly #leftOut = new Set<RunIn>();

  constructor(tasks: readonly AnyTask[], slots: Slots) {
    this.#slots = slots;
    this.#all = tasks.map((task) => task.name);
    for (const { name, settings } of tasks) {
      this.#byPlace.set(settings.runIn, [...(this.#byPlace.get(settings.runIn) ?? []), name]);
    }
  }

  /** As of now; and remembers which were left out. */
  current(): readonly string[] {
    for (const place of this.#byPlace.keys()) {
      if (this.#slots.hasRoomIn(place)) this.#leftOut.delete(place);
      else this.#leftOut.add(place);
    }
    if (this.#leftOut.size === 0) return this.#all;
    return [...this.#byPlace].flatMap(([place, names]) => (this.#leftOut.has(place) ? [] : names));
  }

  /** Whether some that were left out may be claimed now. They may sort before where the search for others has come to. */
  haveGrown(): boolean {
    for (const place of this.#leftOut) if (this.#slots.hasRoomIn(place)) return true;
    return false;
  }
}

/** Collects everything that is wrong with a call, so that it is reported together and before anything is written. */
import { EverbeatError } from "../errors.ts";

export class InvalidOptionsError extends EverbeatError {
  readonly code = "INVALID_OPTIONS";
  readonly kind = "bad-request";
  readonly problems: readonly string[];

  constructor(what: string, problems: readonly string[]) {
    super(`${what} cannot be used as given:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`);
    this.problems = problems;
  }
}

export class Problems {
  readonly #list: string[] = [];

  add(path: string, problem: string): void {
    this.#list.push(path === "" ? problem : `${path}: ${problem}`);
  }

  get isEmpty(): boolean {
    return this.#list.length === 0;
  }

  get list(): readonly string[] {
    return this.#list;
  }

  throwIfAny(what: string): void {
    if (!this.isEmpty) throw new InvalidOptionsError(what, this.#list);
  }
}

/** One row that cannot be claimed makes the whole claim fail. It is taken out of the way, so that it does not keep a worker from all others. */
import type { Database } from "../database/database.ts";
import { isAboutTheValues } from "../database/transient.ts";
import type { Events } from "../events.ts";
import type { ClaimRequest } from "../sql/claims.ts";
import { type SetAside, setAsideBad } from "../sql/set-aside.ts";

export class FailedClaims {
  readonly #parts: { readonly database: Database; readonly events: Events };
  #last: ClaimRequest | undefined;

  constructor(parts: { readonly database: Database; readonly events: Events }) {
    this.#parts = parts;
  }

  note(error: unknown, request: ClaimRequest): void {
    if (isAboutTheValues(error)) this.#last = request;
  }

  /** Until the claim would go through: each call takes out what it finds first. */
  async setAside(signal: AbortSignal): Promise<void> {
    while (this.#last && !signal.aborted) {
      const failed = this.#last;
      const all = await setAsideBad(this.#parts.database, failed);
      for (const one of all) this.#tell(one);
      if (all.length === 0 && this.#last === failed) this.#last = undefined;
    }
  }

  #tell({ taskId, name, queue, reason }: SetAside): void {
    const what = taskId === null ? `queue ${JSON.stringify(queue)}` : `task ${taskId} (${name})`;
    this.#parts.events.emit("claim.passed-by", { what, reason });
  }
}

/** Recovery by hand did what it could: what that is, and what the database refused. */
import { type Advice, advise } from "../advice.ts";
import { EverbeatError } from "../errors.ts";
import { toErrorRecord } from "../task/error-record.ts";
import type { TaskId } from "../task/ids.ts";

export interface RefusedRecovery {
  readonly id: TaskId;
  readonly error: unknown;
}

export class PartlyRecoveredError extends EverbeatError {
  readonly code = "PARTLY_RECOVERED";
  readonly kind = "conflict";

  constructor(
    /** Of those that were recovered. */
    readonly ids: readonly TaskId[],
    readonly refused: readonly RefusedRecovery[],
  ) {
    const reasons = refused.map(({ id, error }) => `  - ${id}: ${toErrorRecord(error).message}`);
    super(
      `${ids.length} of ${ids.length + refused.length} tasks were recovered; the others could not be changed and stay as they were. Remove what raises the error, or end the transaction that has locked them, and recover again:\n${reasons.join("\n")}`,
      { cause: refused[0]?.error },
    );
  }

  /** Of those that were recovered. */
  get count(): number {
    return this.ids.length;
  }

  override get advice(): readonly Advice[] {
    return [advise("See which are left.", "recovery.stale", {})];
  }
}

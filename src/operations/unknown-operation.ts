/** An operation was asked for that there is not. */
import { unknownKey } from "../config/checks.ts";
import { EverbeatError } from "../errors.ts";

export class UnknownOperationError extends EverbeatError {
  readonly code = "OPERATION_NOT_FOUND";
  readonly kind = "not-found";
  constructor(name: string, known: readonly string[]) {
    super(
      `There is no operation "${name}": ${unknownKey(name, known, "operation")}. docs/api-operations.md lists all.`,
    );
  }
}

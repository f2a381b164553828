/** What a command does with operations: it opens Everbeat, asks, and closes it again, whatever happens in between. */
import type { Everbeat } from "../everbeat.ts";
import type { OperationContext } from "../operations/operation.ts";
import type { InputOf, OperationName, ValueOf } from "../operations/operations.ts";
import type { Call } from "./command.ts";
import { withEverbeat } from "./open-for-command.ts";

export interface Asking {
  ask<Name extends OperationName>(name: Name, input: InputOf<Name>, context?: OperationContext): Promise<ValueOf<Name>>;
  /** The database's clock: every stamp that is shown comes from it. */
  now(): Promise<Date>;
}

/** `opening`: for commands about the schema itself, which is then opened as it is. */
export async function asking<T>(
  call: Pick<Call, "options" | "screen">,
  work: (asking: Asking) => Promise<T>,
  opening?: { readonly migrate: "later" },
): Promise<T> {
  // Only here: the commands that run tasks do not pay for the schemas.
  const loading = import("../operations/operations.ts");
  const working = async (everbeat: Everbeat) => {
    const { perform } = await loading;
    return work({
      ask: (name, input, context) => perform(everbeat, name, input, context),
      now: () => everbeat.now(),
    });
  };
  return withEverbeat(call, working, opening);
}

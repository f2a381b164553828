/**
 * The one list of operations: every one that a file of this folder exports. What a front needs of them is here, and it is loaded only
 * where a front needs it (`await import`), because the schemas take their time and memory to be made.
 */
import type * as z from "zod";
import { InvalidOptionsError } from "../config/problems.ts";
import type { Everbeat } from "../everbeat.ts";
import * as alerts from "./alerts.ts";
import * as deaths from "./deaths.ts";
import * as explanations from "./explanations.ts";
import * as fleet from "./fleet.ts";
import * as installation from "./installation.ts";
import type { Operation, OperationContext } from "./operation.ts";
import * as queues from "./queues.ts";
import * as recovery from "./recovery.ts";
import * as status from "./status.ts";
import * as tasks from "./tasks.ts";
import { UnknownOperationError } from "./unknown-operation.ts";

const ALL = {
  ...{ ...tasks, ...explanations, ...queues, ...status, ...fleet },
  ...{ ...recovery, ...deaths, ...alerts, ...installation },
};

type Listed = (typeof ALL)[keyof typeof ALL];

/** Every operation by its name. */
export type Operations = { readonly [Each in Listed as Each["name"]]: Each };
export type OperationName = keyof Operations;

/** What is given to an operation. */
export type InputOf<Name extends OperationName> = z.input<Operations[Name]["input"]>;
/** What a client gets from it, with its moments as Dates; as JSON it is the `input` of the same schema. */
export type AnswerOf<Name extends OperationName> = z.output<Operations[Name]["answer"]>;
/** The same where it comes from: in this process. */
export type ValueOf<Name extends OperationName> = Awaited<ReturnType<Operations[Name]["run"]>>;

export const OPERATIONS = Object.fromEntries(
  Object.values(ALL).map((listed) => [listed.name, listed]),
) as unknown as Operations;

/** Checks the input and carries the operation out. This is the way in for every front. */
export async function perform<Name extends OperationName>(
  everbeat: Everbeat,
  name: Name,
  input: InputOf<Name>,
  context: OperationContext = {},
): Promise<ValueOf<Name>> {
  // A front may be given any text.
  if (!Object.hasOwn(OPERATIONS, name)) throw new UnknownOperationError(String(name), Object.keys(OPERATIONS));
  const operation = OPERATIONS[name] as unknown as Operation<Name, z.ZodType, z.ZodType, ValueOf<Name>>;
  return operation.run(everbeat, understood(operation, input), context);
}

function understood({ name, input: schema }: { name: string; input: z.ZodType }, given: unknown): unknown {
  const { success, data, error } = schema.safeParse(given);
  if (success) return data;
  const problems = error.issues.map(({ path, message }) =>
    path.length === 0 ? message : `${path.join(".")}: ${message}`,
  );
  throw new InvalidOptionsError(`The input of ${name}`, problems);
}

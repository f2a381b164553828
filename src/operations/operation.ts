/**
 * What a person or a program can ask of Everbeat beside the hot path: an operation has a name, the schemas of its input and its
 * answer, the role that it needs, and a function over the public parts. Each front (the command line, HTTP, a client) is a form of these.
 */
import type * as z from "zod";
import type { Everbeat } from "../everbeat.ts";

/** Who looks, who gives orders about tasks and queues, and who changes the installation itself. Each may do what those before it may. */
export type Role = "viewer" | "operator" | "admin";

/** How far a long operation has come. */
export interface Reached {
  readonly done: number;
  readonly of: number;
  /** What is done next, where the steps have names. */
  readonly step?: string;
}

/** What an operation is given besides its input. */
export interface OperationContext {
  /** Ends a long operation between two of its steps. What was done before stays done. */
  readonly signal?: AbortSignal | undefined;
  readonly progress?: ((reached: Reached) => void) | undefined;
}

/** Called between two steps of a long operation, which is also where it can be ended. */
export function between({ signal, progress }: OperationContext): (reached: Reached) => void {
  return (reached) => {
    progress?.(reached);
    if (reached.done < reached.of) signal?.throwIfAborted();
  };
}

export interface Operation<Name extends string, Input extends z.ZodType, Answer extends z.ZodType, Value> {
  readonly name: Name;
  readonly role: Role;
  /** False: asking leaves everything as it is. */
  readonly changes: boolean;
  /** One sentence for people. */
  readonly description: string;
  readonly input: Input;
  /** What goes in is the JSON that is sent, and what comes out is what this process had: moments are text in the one and Dates in the other. */
  readonly answer: Answer;
  readonly run: (everbeat: Everbeat, input: z.output<Input>, context: OperationContext) => Promise<Value>;
}

/** The compiler compares what `run` returns with the schema of the answer. */
export function operation<
  const Name extends string,
  Input extends z.ZodType,
  Answer extends z.ZodType,
  Value extends z.output<Answer>,
>(parts: Operation<Name, Input, Answer, Value>): Operation<Name, Input, Answer, Value> {
  return parts;
}

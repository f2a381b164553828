/** Checks an input against its task's schema, whichever library that came from. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { AnyTask } from "./define-task.ts";
import type { JsonChange } from "./json.ts";

export type ParsedInput =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly problems: readonly string[] };

/** At once, unless the schema has to wait for something. */
export function parseInput(task: AnyTask, input: unknown): ParsedInput | Promise<ParsedInput> {
  if (!task.schema) return { ok: true, value: input };
  const outcome = task.schema["~standard"].validate(input);
  return outcome instanceof Promise ? outcome.then(toParsed) : toParsed(outcome);
}

function toParsed(outcome: StandardSchemaV1.Result<unknown>): ParsedInput {
  if (!outcome.issues) return { ok: true, value: outcome.value };
  return { ok: false, problems: outcome.issues.map(describeIssue) };
}

function describeIssue(issue: StandardSchemaV1.Issue): string {
  const path = (issue.path ?? []).map((part) => String(typeof part === "object" ? part.key : part)).join(".");
  return path === "" ? issue.message : `${path}: ${issue.message}`;
}

const HINTS: Readonly<Record<JsonChange, string>> = {
  date: "a Date becomes text, which z.coerce.date() takes",
  toJSON: "an object with a toJSON() becomes what that returns",
  undefined: "an undefined property is left out, and no input at all becomes null, which z.null() takes",
  instance: "an instance of a class becomes a plain object",
};

/** Says of an input that fits its schema as it was given, and no longer when it is read from JSON. */
export function refusedAsJson(problems: readonly string[], changes: ReadonlySet<JsonChange>): string {
  const hints = [...changes].map((change) => HINTS[change]).join("; ");
  return `it is stored as JSON, and in that form the schema refuses it: ${problems.join("; ")} (${hints})`;
}

/** Checks an input against its task's schema, whichever library that came from. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { AnyTask } from "./define-task.ts";

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

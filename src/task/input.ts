/** Checks an input against its task's schema, whichever library that came from. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { AnyTask } from "./define-task.ts";

export type ParsedInput =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly problems: readonly string[] };

export async function parseInput(task: AnyTask, input: unknown): Promise<ParsedInput> {
  if (!task.schema) return { ok: true, value: input };
  let outcome = task.schema["~standard"].validate(input);
  if (outcome instanceof Promise) outcome = await outcome;
  if (!outcome.issues) return { ok: true, value: outcome.value };
  return { ok: false, problems: outcome.issues.map(describeIssue) };
}

function describeIssue(issue: StandardSchemaV1.Issue): string {
  const path = (issue.path ?? []).map((part) => String(typeof part === "object" ? part.key : part)).join(".");
  return path === "" ? issue.message : `${path}: ${issue.message}`;
}

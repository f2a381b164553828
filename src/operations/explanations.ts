/** Why a task is where it is. */
import * as z from "zod";
import { REASONS } from "../recovery/explain.ts";
import { operation } from "./operation.ts";
import { advice, listOf, state, taskId, uuid } from "./schemas.ts";

export const tasksExplain = operation({
  name: "tasks.explain",
  role: "viewer",
  changes: false,
  description: "why a task is where it is, and what will happen when",
  input: z.strictObject({ id: taskId }),
  answer: z.strictObject({
    taskId: uuid,
    name: z.string(),
    state,
    because: z.enum(REASONS),
    summary: z.string(),
    evidence: listOf(z.string()),
    next: z.string(),
    isStuck: z.boolean(),
    advice: listOf(advice),
  }),
  run: ({ recovery }, { id }) => recovery.explain(id),
});

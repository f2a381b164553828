/** The parts of which inputs and answers are made, and how a rule of the API becomes one. */
import * as z from "zod";
import type { Check } from "../config/checks.ts";
import type { Duration } from "../config/duration.ts";
import { Problems } from "../config/problems.ts";
import type { ErrorRecord } from "../task/error-record.ts";
import { isTaskId } from "../task/id-checks.ts";
import { TASK_STATES } from "../task/states.ts";

/** Text in JSON, and a Date here. */
export const instant = z.codec(z.iso.datetime(), z.date(), {
  decode: (text) => new Date(text),
  encode: (date) => date.toISOString(),
});
export const uuid = z.uuid();
export const taskId = ruled(isTaskId, z.string());
export const state = z.enum(TASK_STATES);
/** An ever-growing number, which may be larger than what a number of JSON holds exactly. */
export const claimId = z.string().regex(/^\d+$/);
export const count = z.int().min(0);
/** Measured by the database, with fractions. */
export const milliseconds = z.number();

/** As it is given: milliseconds, or text such as "30s". */
export const duration = z.union([z.number(), z.string()]) as unknown as z.ZodType<Duration, Duration>;

export function listOf<Each extends z.ZodType>(each: Each) {
  return z.array(each).readonly();
}

/** What is left of an error on record. One of a death carries more. */
export const errorRecord: z.ZodType<ErrorRecord, ErrorRecord> = z.looseObject({
  code: z.string(),
  name: z.string().exactOptional(),
  message: z.string(),
  stack: z.string().exactOptional(),
  get cause() {
    return errorRecord.exactOptional();
  },
  get errors() {
    return z.array(errorRecord).exactOptional();
  },
  errorsLeftOff: z.int().exactOptional(),
});

/** Where it is more than words: the name of an operation, and an input for it. */
export const advice = z.strictObject({
  sentence: z.string(),
  operation: z.string().optional(),
  input: z.unknown().optional(),
});

/** Checked by the rule of the API, too, and refused in its words. */
export function ruled<Schema extends z.ZodType>(check: Check<unknown>, schema: Schema): Schema {
  return schema.superRefine((value, context) => {
    const problems = new Problems();
    check(value, "", problems);
    for (const problem of problems.list) context.addIssue(problem);
  });
}

/** The options of a call of the API, none of which must be given. A rule without its schema is an error of the compiler. */
export function optionsBy<
  Rules extends Readonly<Record<string, Check<unknown>>>,
  Schemas extends Readonly<Record<keyof Rules, z.ZodType>>,
>(rules: Rules, schemas: Schemas): { [Key in keyof Rules]: z.ZodOptional<Schemas[Key]> } {
  const options = Object.entries<Check<unknown>>(rules).map(([key, check]) => {
    const schema = schemas[key as keyof Rules] as z.ZodType;
    return [key, ruled(check, schema).optional()];
  });
  return Object.fromEntries(options);
}

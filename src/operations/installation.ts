/** Operations on the installation: its schema, and what is wrong with it. */
import * as z from "zod";
import { between, operation } from "./operation.ts";
import { advice, count, listOf } from "./schemas.ts";

export const doctor = operation({
  name: "doctor",
  role: "viewer",
  changes: false,
  description: "what is wrong with the database and with the fleet in it, and what to do about it",
  input: z.strictObject({}),
  answer: z.strictObject({
    isWell: z.boolean(),
    findings: listOf(
      z.strictObject({
        check: z.string(),
        mark: z.enum(["good", "warning", "wrong", "skipped"]),
        found: z.string(),
        advice: listOf(advice),
      }),
    ),
  }),
  async run(everbeat, _, context) {
    const findings = await everbeat.doctor({ onProgress: between(context) });
    return { isWell: findings.every(({ mark }) => mark !== "wrong"), findings };
  },
});

export const schemaShow = operation({
  name: "schema.show",
  role: "viewer",
  changes: false,
  description: "what the schema is at, and what is to be done before this version can work with it",
  input: z.strictObject({}),
  answer: z.strictObject({
    schema: z.string(),
    version: count,
    wanted: count,
    pending: listOf(z.string()),
    outdated: count,
    needsMigration: z.boolean(),
    problem: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
  }),
  run: (everbeat) => everbeat.schema(),
});

export const schemaMigrate = operation({
  name: "schema.migrate",
  role: "admin",
  changes: true,
  description: "bring the schema up to date; safe while workers run",
  input: z.strictObject({}),
  answer: z.strictObject({ schema: z.string(), applied: listOf(z.string()), replaced: count, version: count }),
  run: (everbeat, _, context) => everbeat.migrate({ onProgress: between(context) }),
});

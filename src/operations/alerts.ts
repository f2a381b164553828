/** Operations on alerts. */
import * as z from "zod";
import { ALERT_RULES } from "../alerts/alert-orders.ts";
import type { AlertKind } from "../index.ts";
import { operation } from "./operation.ts";
import { alert } from "./rows.ts";
import { listOf, optionsBy } from "./schemas.ts";

export const alertsList = operation({
  name: "alerts.list",
  role: "viewer",
  changes: false,
  description: "what is wrong, and what has been, the latest first",
  input: z.strictObject(
    optionsBy(ALERT_RULES, {
      ...{
        open: z.boolean(),
        kind: z.string() as unknown as z.ZodType<AlertKind, AlertKind>,
        subject: z.string(),
        since: z.string(),
        limit: z.int(),
      },
    }),
  ),
  answer: z.strictObject({ alerts: listOf(alert) }),
  run: async ({ alerts }, query) => ({ alerts: await alerts.list(query) }),
});

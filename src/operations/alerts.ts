/** Operations on alerts. */
import * as z from "zod";
import { ALERT_RULES } from "../recovery/recovery-orders.ts";
import { operation } from "./operation.ts";
import { alert } from "./rows.ts";
import { listOf, optionsBy } from "./schemas.ts";

export const alertsList = operation({
  name: "alerts.list",
  role: "viewer",
  changes: false,
  description: "what is wrong at this moment, the latest first; or also what has been",
  input: z.strictObject(optionsBy(ALERT_RULES, { onlyOpen: z.boolean(), limit: z.int() })),
  answer: z.strictObject({ alerts: listOf(alert) }),
  run: async ({ recovery }, query) => ({ alerts: await recovery.alerts(query) }),
});

/** Why a crash is charged to nobody, as far as its error says so. Pure. */
import type { ErrorRecord } from "../task/error-record.ts";
import { counted } from "./explain-words.ts";
import type { Death } from "./recovery-action.ts";

export function unchargedWords(error: ErrorRecord & Partial<Death>): string | undefined {
  const why = reasonOf(error);
  return why && `no crash is charged: ${why}`;
}

function reasonOf({ before = 0, beside = 0, runner, wasDraining }: Partial<Death>): string | undefined {
  if (wasDraining) return "its worker had been told to go";
  const others =
    beside === 0 ? undefined : `${counted(beside, "other task")} ran in the same ${runner ? "runner" : "worker"}`;
  if (before === 0) return others;
  const earlier = `its runner had run ${counted(before, "task")} before it, which may have left something behind`;
  return others ? `${earlier}, and ${others}` : earlier;
}

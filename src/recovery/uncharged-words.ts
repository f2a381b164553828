/** Why a crash is charged to nobody, as far as its error says so. Pure. */
import { type DeathInError, readDeathIn } from "./death-in-error.ts";
import { counted } from "./explain-words.ts";

export function unchargedWords(error: unknown): string | undefined {
  const why = reasonOf(readDeathIn(error));
  return why && `no crash is charged: ${why}`;
}

function reasonOf({ before = 0, beside = 0, runner, wasDraining }: DeathInError): string | undefined {
  if (wasDraining) return "its worker had been told to go";
  const others =
    beside === 0 ? undefined : `${counted(beside, "other task")} ran in the same ${runner ? "runner" : "worker"}`;
  if (before === 0) return others;
  const earlier = `its runner had run ${counted(before, "task")} before it, which may have left something behind`;
  return others ? `${earlier}, and ${others}` : earlier;
}

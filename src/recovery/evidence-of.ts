/** What is known of a replica, as evidence for a verdict. Pure. */
import type { SignsOfLife } from "../sql/replicas.ts";
import type { Evidence } from "./verdict.ts";

/** Of a replica without a heart nothing is known, and it has promised nothing. */
export function evidenceOf(signs: Pick<SignsOfLife, keyof Evidence>): Evidence {
  return {
    silentForMs: signs.silentForMs ?? 0,
    sessionFreeForMs: signs.sessionFreeForMs ?? undefined,
    promiseMs: signs.promiseMs ?? 0,
    sessionPromiseMs: signs.sessionPromiseMs ?? 0,
    intervalMs: signs.intervalMs ?? 0,
  };
}

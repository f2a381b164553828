/** Whether the database answers at all. */
import { performance } from "node:perf_hooks";
import { type Finding, good, wrong } from "../../doctor/finding.ts";
import type { Asking } from "../asking.ts";

export async function checkDatabase({ now }: Pick<Asking, "now">, address: string): Promise<Finding> {
  // The first statement pays for the connection; the second shows the way there and back.
  await now();
  const sentAt = performance.now();
  await now();
  const tookMs = Math.max(1, Math.round(performance.now() - sentAt));
  return good("database", `${address} answers in ${tookMs} ms`);
}

export function unreachable({ message }: Error): Finding {
  const [found = "", ...advice] = message.split(/\n(?=Check|Run)/);
  return wrong("database", found, ...advice);
}

/** Whether the database answers at all. */
import { performance } from "node:perf_hooks";
import type { Database } from "../../database/database.ts";
import { readClock } from "../../sql/clock.ts";
import { type Finding, good } from "./finding.ts";

export async function checkDatabase(
  open: () => Promise<Database>,
  address: string,
): Promise<{ finding: Finding; database: Database | undefined }> {
  let database: Database | undefined;
  try {
    database = await open();
    // The first statement pays for the connection; the second shows the way there and back.
    await readClock(database);
    const sentAt = performance.now();
    await readClock(database);
    const tookMs = Math.max(1, Math.round(performance.now() - sentAt));
    return { finding: good("database", `${address} answers in ${tookMs} ms`), database };
  } catch (error) {
    await database?.close();
    return { finding: unreachable(error as Error), database: undefined };
  }
}

function unreachable({ message }: Error): Finding {
  const [found = "", ...advice] = message.split(/\n(?=Check|Run)/);
  // The doctor is in already.
  const rest = advice.join("\n").replace(/, or run `everbeat doctor`/, "");
  return { check: "database", mark: "wrong", found, ...(rest === "" ? {} : { advice: rest }) };
}

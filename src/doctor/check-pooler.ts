/** Whether something sits between us and the server, and whether notices get through. */
import type { Database } from "../database/database.ts";
import { probeSession } from "../database/probe-session.ts";
import { type Finding, good, warning } from "./finding.ts";

export async function checkPooler(database: Database): Promise<Finding> {
  const { isDirect, noticeMs } = await probeSession(database);
  if (isDirect && noticeMs !== undefined) {
    return good("pooler", `none: a direct connection, on which notices arrive (after ${Math.ceil(noticeMs)} ms)`);
  }
  const advice =
    "Nothing has to be done. For tasks to start at once, and for a crash to be known in about a second, give the workers the server's own address, without the pooler.";
  const found = isDirect
    ? "a direct connection, but no notice arrived within 2 s; workers look for tasks by themselves instead"
    : "a pooler sits in between, so notices cannot be used; workers look for tasks by themselves instead. Hearts cannot hold session locks either: a crash is known by silence alone, which takes longer";
  return warning("pooler", found, advice);
}

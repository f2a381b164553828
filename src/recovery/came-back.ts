/** A replica that had been given up is here again: it was no crash, so it costs nobody anything, and the record is put right. */
import type { Database } from "../database/database.ts";
import { correctPostMortems } from "../sql/post-mortems.ts";
import { forgiveCrash } from "../sql/suspicion.ts";
import type { ReplicaId } from "../task/ids.ts";
import { backWords } from "./death-evidence.ts";
import { probableCause } from "./probable-cause.ts";

/** False: somebody has locked a part of the record, which is still wrong. It may be called again. */
export async function forgive(database: Database, replicaId: ReplicaId, how: "fenced" | "refused"): Promise<boolean> {
  const afterMs = await forgiveCrash(database, replicaId, how);
  if (afterMs === undefined) return true;
  const cameBack = { afterMs: Math.max(0, afterMs), how };
  const { cause, sentence } = probableCause({ kind: "replica", because: "unknown", cameBack });
  return correctPostMortems(database, replicaId, { cause, sentence, line: backWords(cameBack) });
}

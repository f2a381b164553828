/**
 * What a follower of replicas is told (pure). The database adds the changes that nobody has told (`replica_changes`), so there is nothing to compare
 * here. Who wants to know how they stand lists them.
 */
import type { Happening } from "../sql/following.ts";
import type { ReplicaId } from "../task/ids.ts";
import type { View } from "./stream.ts";

const KINDS = ["joined", "stale", "draining", "offline", "dead", "rejoined"] as const;

export type ReplicaNews =
  /** From here on everything is told. `missed`: something may be left out before it. */
  | { readonly kind: "state"; readonly missed: boolean }
  | { readonly kind: (typeof KINDS)[number]; readonly replicaId: ReplicaId; readonly hostname: string }
  /** The reader was slow: so many updates before the next one were lost. */
  | { readonly kind: "dropped"; readonly count: number };

export class ReplicaView implements View<ReplicaNews> {
  /** A replica has no end: one that has left may be declared dead, and one that was may come back. */
  readonly isOver = false;

  /** Each change is told as it was written, whatever was told before. */
  readonly told = "";

  resume(): void {}

  begin(_: undefined, missed: boolean): ReplicaNews {
    return { kind: "state", missed };
  }

  happened({ kind, details }: Happening): ReplicaNews | undefined {
    const known = KINDS.find((name) => name === kind);
    if (!known || !details) return undefined;
    return { kind: known, replicaId: details["replicaId"] as ReplicaId, hostname: details["hostname"] as string };
  }

  compare(): undefined {}
}

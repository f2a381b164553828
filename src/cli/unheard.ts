/** Whether anybody listens, for the commands that judge owners: while nobody does, nobody knows who of them is alive. */
import { formatDuration } from "../config/duration.ts";
import type { ReplicaId, ReplicaWithHeart } from "../index.ts";
import type { ValueOf } from "../operations/operations.ts";
import { UNHEARD_BY_HAND_MS } from "../recovery/limits.ts";
import type { Asking } from "./asking.ts";
import type { GlobalOptions } from "./command.ts";
import { unheardWords } from "./times.ts";
import { quoted, START_WORDS, typedCommand } from "./typed-command.ts";

export interface Unheard {
  readonly replicas: ReadonlySet<ReplicaId>;
  /** All that are on record, or the one that was asked for. */
  readonly all: readonly ReplicaWithHeart[];
  readonly now: Date;
}

/** `replica`: it was asked for this one only. */
export async function readUnheard({ ask }: Asking, replica?: string): Promise<Unheard> {
  const { now, replicas } = await ask("replicas.list", { all: true });
  const all = replicas.filter(({ id }) => replica === undefined || id === replica.toLowerCase());
  const rows = all.filter((row) => row.unheardSince !== null);
  return {
    replicas: new Set(rows.map(({ id }) => id)),
    all,
    now,
  };
}

/** Undefined where the answer is sure. */
export function unsureWords(unsure: ValueOf<"recovery.stale">["unsure"], now: Date): string | undefined {
  if (unsure === null) return undefined;
  const { since, held } = unsure;
  const tasks = held === 1 ? "1 task is" : `${held} tasks are`;
  return `Nothing can be said for sure: ${unheardWords(since, now)}, and ${tasks} held by workers that are unheard.`;
}

/** By hand, without anybody who listens: an owner that beats is never taken for one that is silent for so long. */
export function howToRecoverUnheard({ replica, ...given }: GlobalOptions & { readonly replica?: string }): string {
  const of = replica === undefined ? "" : ` --replica ${quoted(replica)}`;
  const command = typedCommand(`recover --after ${formatDuration(UNHEARD_BY_HAND_MS)} --dry-run${of}`, given);
  return `By hand, what is held by workers that have given no sign of life for some time: ${command}`;
}

/** What helps then. */
export function howToBeSure(given: GlobalOptions): string {
  return `No worker recovers tasks while nobody listens. Start one: ${typedCommand(START_WORDS, given)}`;
}

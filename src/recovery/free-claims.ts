/** Gives claims of one owner back, or ends them, all at once; those that are refused or that somebody has locked are passed by. */
import type { Freed } from "../sql/recover-claims.ts";
import type { ClaimOnTask } from "../task/ids.ts";
import { LockedTaskError } from "./locked-task.ts";
import type { PassedBy } from "./passed-by.ts";

export interface ClaimToFree {
  readonly claim: ClaimOnTask & { readonly name: string };
}

export interface Freeing<T> {
  /** In words, of one of them. */
  readonly whatOf: (one: T) => string;
  readonly act: (some: readonly T[]) => Promise<Freed>;
  /** Without it, what is refused is the caller's error. */
  readonly passedBy: PassedBy | undefined;
}

/** Returns those that it was done with. A claim that no longer holds was ended by somebody else: it is not done, nor passed by. */
export async function freeClaims<T extends ClaimToFree>(
  all: readonly T[],
  { whatOf, act, passedBy }: Freeing<T>,
): Promise<readonly T[]> {
  if (all.length === 0) return [];
  const locked: T[] = [];
  const free = async (some: readonly T[]) => {
    const freed = await act(some);
    locked.push(...some.filter(({ claim }) => freed.locked.includes(claim.claimId)));
    const done = new Set(freed.done);
    return some.filter(({ claim }) => done.has(claim.claimId));
  };
  if (!passedBy) return free(all);
  const done = await passedBy.inHalves(all, whatOf, free);
  // Mostly it is another who frees it at this moment.
  for (const one of locked) await passedBy.tell(whatOf(one), new LockedTaskError(one.claim.taskId), { isUsual: true });
  return done;
}

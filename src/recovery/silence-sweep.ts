/** One sweep over one source: gives verdicts on those in doubt, holds where too many would die at once, acts, tells and recovers. */
import { holdOn } from "./mass-death.ts";
import type { PassedBy } from "./passed-by.ts";
import type { Dead, Doubtful, Guard, Judged, Policy, Source } from "./source.ts";
import { verdictOn } from "./verdict.ts";

export async function sweepSilence<Context>(source: Source<Context>): Promise<void> {
  await source.passedBy.attempt(source.doing, () => giveVerdicts(source));
  await source.recover?.();
}

async function giveVerdicts<Context>(source: Source<Context>): Promise<void> {
  const { policies, guard, passedBy } = source;
  const judged = (await source.findDoubtful()).map((one) => judge(one, policies[0]));
  // No verdict waits for what is only told of.
  const stale = judged.filter(({ verdict }) => verdict.kind === "stale");
  await passedBy.attempt("telling who is stale", () => source.warn(stale));
  if (guard && !(await mayAct(guard, judged, passedBy))) return;
  let left: readonly Doubtful<Context>[] = judged;
  for (const policy of policies) {
    const again = left.map((one) => judge(one, policy));
    await actOn(passedBy, policy, again.filter(isDead));
    left = again.filter((one) => !isDead(one));
  }
  await passedBy.settle();
  await source.settle?.();
}

function judge<Context>(doubtful: Doubtful<Context>, policy: Policy<Context>): Judged<Context> {
  return { ...doubtful, verdict: verdictOn(doubtful, policy.limitsOf(doubtful)) };
}

function isDead<Context>(judged: Judged<Context>): judged is Dead<Context> {
  return judged.verdict.kind === "dead";
}

/** Whether so many may be acted on at once. */
async function mayAct<Context>(
  guard: Guard<Context>,
  judged: readonly Judged<Context>[],
  passedBy: PassedBy,
): Promise<boolean> {
  const fleet = { ...guard.count(judged), heldForMs: undefined, isConfirmed: false };
  if (holdOn(fleet, guard.policy) === "act") {
    await passedBy.attempt("ending the hold", () => guard.release());
    return true;
  }
  if (!judged.some(isDead)) return false;
  const held = { ...fleet, ...(await guard.hold()) };
  if (holdOn(held, guard.policy) !== "hold") return true;
  await passedBy.attempt("telling of the hold", () => guard.tellOfHold(held));
  return false;
}

async function actOn<Context>(
  passedBy: PassedBy,
  policy: Policy<Context>,
  dead: readonly Dead<Context>[],
): Promise<void> {
  const whatOf = ({ subject }: Dead<Context>) => `${policy.doing} ${subject}`;
  const act = async (some: readonly Dead<Context>[]) => {
    const done = await policy.act(some);
    policy.tell(done);
    return done;
  };
  if (policy.isOneByOne) await passedBy.each(dead, whatOf, async (one) => void (await act([one])));
  else await passedBy.inHalves(dead, whatOf, act);
}

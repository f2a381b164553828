/** What was written about tasks was written by whoever had the right to, whatever the server has forgotten meanwhile. Pure. */

export interface Signature {
  readonly task: string;
  readonly claim: string;
}

/** Instants are those of commits, in microseconds of the database's clock. */
export interface RightsRecord {
  /** What handlers have signed in a file that forgets nothing: up to the loss, and in all. */
  readonly signedBefore: readonly Signature[];
  readonly signed: readonly Signature[];
  /** The last claim id that the database has issued. */
  readonly lastClaim: string;
  readonly tasks: readonly string[];
  readonly attempts: readonly (Signature & { readonly endedAt: number })[];
  /** Tasks whose handlers sign, as they ended: a result is the signature of whoever completed the task. */
  readonly outcomes: readonly (Signature & { readonly state: string; readonly result: Signature | null })[];
  readonly ended: readonly string[];
  /** What handlers have left in transactions that their claims guarded. */
  readonly effects: readonly (Signature & { readonly committedAt: number })[];
}

/** An empty list: nothing is wrong. */
export function checkRights(record: RightsRecord): string[] {
  return [
    ...wrongIds(record),
    ...record.outcomes.flatMap(wrongOutcome),
    ...wrongEffects(record),
    ...record.tasks.flatMap((task) => wrongEnd(task, record.ended)),
  ];
}

/** No id was issued twice, neither to those who remember nor on record, and the database goes on above all that it has forgotten. */
function wrongIds({ signedBefore, signed, attempts, lastClaim }: RightsRecord): string[] {
  const onRecord = new Set(attempts.map(({ claim }) => claim));
  const largest = signedBefore.reduce((most, { claim }) => (BigInt(claim) > most ? BigInt(claim) : most), 0n);
  const taskOf = new Map(signed.map(({ claim, task }) => [claim, task]));
  return [
    ...(signedBefore.every(({ claim }) => onRecord.has(claim)) ? ["nothing was forgotten"] : []),
    ...(BigInt(lastClaim) > largest ? [] : [`claim ids go on from ${lastClaim}, and ${largest} was issued before`]),
    ...twice(signed).map((claim) => `claim ${claim} was signed twice`),
    ...twice(attempts).map((claim) => `claim ${claim} is on record twice`),
    ...attempts
      .filter(({ claim, task }) => taskOf.has(claim) && taskOf.get(claim) !== task)
      .map(({ claim, task }) => `claim ${claim} is on record for task ${task}, and was for task ${taskOf.get(claim)}`),
  ];
}

function twice(signatures: readonly Signature[]): string[] {
  const seen = new Set<string>();
  return signatures.map(({ claim }) => claim).filter((claim) => seen.has(claim) || !seen.add(claim));
}

function wrongOutcome({ task, claim, state, result }: RightsRecord["outcomes"][number]): string[] {
  if (state !== "completed") return [`task ${task} is ${state}, and all of its kind complete`];
  if (result?.task === task && result.claim === claim) return [];
  return [`task ${task}, claim ${claim}, has the result of task ${result?.task}, claim ${result?.claim}`];
}

/** No effect of a claim that the database does not know, and none that was committed when its attempt had ended. */
function wrongEffects({ effects, attempts }: RightsRecord): string[] {
  const endedAt = new Map(attempts.map((attempt) => [keyOf(attempt), attempt.endedAt]));
  return effects.flatMap((effect) => {
    const end = endedAt.get(keyOf(effect));
    const what = `an effect on task ${effect.task} by claim ${effect.claim}`;
    if (end === undefined) return [`${what}, which the database does not know`];
    // At the same moment: in the transaction that completed the task.
    return effect.committedAt <= end ? [] : [`${what} ${effect.committedAt - end} µs after its attempt had ended`];
  });
}

function keyOf({ task, claim }: Signature): string {
  return `${task} ${claim}`;
}

function wrongEnd(task: string, ended: readonly string[]): string[] {
  const count = ended.filter((id) => id === task).length;
  return count === 1 ? [] : [`task ${task} has ended ${count} times`];
}

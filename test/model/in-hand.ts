/** What a process has in hand, and what it finds out when it looks at its own claims. */
import type { RecoverySettings } from "../../src/config/recovery-options.ts";
import type { Database } from "../../src/database/database.ts";
import { adoptClaims, type ClaimedTask, readOwnClaims } from "../../src/sql/claims.ts";
import type { Outcome } from "../../src/sql/outcomes.ts";
import type { ClaimId, ClaimOnTask, ReplicaId, TaskId } from "../../src/task/ids.ts";
import { forgottenOutcome, tellApart } from "../../src/worker/forgotten-ends.ts";
import type { Received } from "../../src/worker/received.ts";
import { KINDS } from "./kinds.ts";

export interface InHand {
  readonly claim: ClaimId;
  readonly task: TaskId;
  readonly name: string;
  isStarted: boolean;
}

export function inHand({ claimId: claim, taskId: task, name, state }: ClaimedTask): InHand {
  return { claim, task, name, isStarted: state === "running" };
}

export function claimOf({ claim, task }: InHand): ClaimOnTask {
  return { claimId: claim, taskId: task };
}

export interface Look {
  readonly lost: readonly ClaimId[];
  /** Its own, and not begun by what is on record. */
  readonly adopted: readonly ClaimedTask[];
  /** It has ended them, and the server has forgotten that: what is written now. */
  readonly forgotten: readonly Outcome[];
}

/** As src/worker/claim-watch.ts and the claimer look. */
export async function lookAtClaims(
  database: Database,
  parts: { replica: ReplicaId; known: readonly InHand[]; received: Received; policy: RecoverySettings },
): Promise<Look> {
  const { replica, known, received, policy } = parts;
  const own = await readOwnClaims(database, replica);
  const isOwn = ({ claim, task }: InHand) => own.some(({ claimId, taskId }) => claimId === claim && taskId === task);
  const neverBegun = received.neverBegun();
  const unknown = await adoptClaims(database, replica, known.map(claimOf));
  const { unbegun, forgotten } = await tellApart(database, unknown, received);
  received.settle(unbegun, neverBegun);
  return {
    lost: known.filter((one) => !isOwn(one)).map(({ claim }) => claim),
    adopted: unbegun,
    forgotten: forgotten.map((task) =>
      forgottenOutcome(task, replica, settingsOfKind(task.name), { policy, random: 0.5 }),
    ),
  };
}

/** See src/worker/stand-down.ts. */
export function mustStop(name: string): boolean {
  return settingsOfKind(name).whenCutOff === "abort" || kindOf(name).exclusive !== undefined;
}

function settingsOfKind(name: string) {
  return kindOf(name).task.settings;
}

function kindOf(name: string) {
  const kind = KINDS.find(({ task }) => task.name === name);
  if (!kind) throw new Error(`no kind ${name}`);
  return kind;
}

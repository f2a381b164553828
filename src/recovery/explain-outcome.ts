/** What becomes of a task when its owner is dead, in words: by the same decision as the recovery's. */
import { formatDuration } from "../config/duration.ts";
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { OwnerFacts, TaskFacts } from "../sql/explain-task.ts";
import { readDeath } from "../task/death.ts";
import { counted } from "./explain-words.ts";
import { blamedFor, type Death, type RecoveryAction, recoveryOf } from "./recovery-action.ts";
import { mayBeByStrangers } from "./strangers.ts";
import { blameOn, noBlameOn } from "./suspicion.ts";

interface Case {
  readonly facts: TaskFacts;
  readonly owner: OwnerFacts;
  readonly settings: RecoverySettings;
}

export function actionOn({ facts, owner, settings }: Case): RecoveryAction {
  const { state, crashes, suspicion, cancelForceInMs, definition } = facts;
  const task = {
    ...{ state: state as "claimed" | "running", crashes, suspicion, isCancelled: cancelForceInMs !== null },
    onCrash: definition?.onCrash ?? undefined,
    retry: definition?.retry ?? undefined,
    crashBudget: definition?.crashBudget ?? undefined,
  };
  const blamed = blamedFor(deathOf(owner), owner.stoppers);
  const isBlamed = blamed === "all" || (blamed === "stoppers" && owner.isStoppedByTask);
  const blame = isBlamed
    ? blameOn(task, { ...owner.crowd, hasStrangers: blamed === "all" && mayBeByStrangers(readDeath(owner.death)) })
    : noBlameOn(task);
  return recoveryOf(task, blame, settings, 0);
}

/** It is dead, has left, or would be dead in a moment as it is now. */
function deathOf({ replicaId, status, death, cameBack, silentForMs }: OwnerFacts): Death {
  const { wasDraining, isCharged, exitCall, ...known } = readDeath(death);
  return {
    ...{ replicaId, silentForMs: silentForMs ?? undefined, cameBack, isCharged, exitCall },
    because: status === "dead" ? known.because : status === "offline" || status === "missing" ? status : "silent",
    wasDraining: status === "draining" || wasDraining === true,
  };
}

export function outcomeWords(the: Case): string {
  const action = actionOn(the);
  switch (action.kind) {
    case "leave":
      return "nothing is done, since automatic recovery is switched off";
    case "release":
      return "it is pending again, with nothing spent: none of its code ran";
    case "cancel":
      return "it is cancelled, as was asked for";
    case "fail":
      return action.because === "crash-budget"
        ? "it goes into quarantine (POISONED), because its crash budget is spent"
        : 'it fails with WORKER_CRASHED (onCrash: "fail") and needs review';
    case "again":
      return action.delayMs === 0
        ? "it is pending again at once"
        : `it is pending again, due ${formatDuration(action.delayMs)} later`;
  }
}

export function budgetWords({ definition, crashes, suspicion }: TaskFacts, { crashBudget }: RecoverySettings): string {
  const budget = definition?.crashBudget ?? crashBudget;
  const shared = suspicion === 0 ? "" : `, suspected of ${counted(suspicion, "more", "more")}`;
  return `if its owner dies: onCrash "${definition?.onCrash ?? "fail"}", ${crashes} of ${budget} crashes so far${shared}`;
}

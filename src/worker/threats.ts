/** What a worker has its heart put on record when one of its handlers threatens the process that the others run in as well. */
import type { ProcessThreats } from "../runner/handler-scopes.ts";
import type { Hand } from "./hand.ts";
import type { Replica } from "./replica.ts";

export function watchThreats(worker: {
  replica: Replica;
  hand: () => Hand;
  isStopping: () => boolean;
}): ProcessThreats {
  const { replica } = worker;
  return {
    // A supervisor asks its children to leave then, and takes any end for one that it has asked for. So it must be known first who is to blame.
    onParentSignalled() {
      const claims = worker.hand().stoppers();
      if (claims.length > 0) replica.sayLast({ kind: "stoppers", claims });
    },
    onLateExit({ taskId, name }, exitCode) {
      if (worker.hand().isEmpty || worker.isStopping()) return;
      replica.sayLast({ kind: "exit-call", call: { taskId, name, exitCode } });
    },
  };
}

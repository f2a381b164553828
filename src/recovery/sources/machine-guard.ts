/** The guard against mass death among hearts: by machines. */
import { HEARTS } from "../../alert-kinds.ts";
import type { RecoverySettings } from "../../config/recovery-options.ts";
import type { DoubtfulHeart } from "../../sql/hearts.ts";
import { type GuardParts, RememberedGuard } from "../remembered-guard.ts";

export type MachineGuard = RememberedGuard<DoubtfulHeart>;

export function machineGuard(
  parts: GuardParts,
  settings: Pick<RecoverySettings, "checkMs" | "massDeath">,
): MachineGuard {
  return new RememberedGuard(parts, {
    ...{ source: HEARTS, counted: "machines", everyMs: settings.checkMs, policy: settings.massDeath },
    memberOf: ({ context, verdict }) => ({
      group: context.machineId ?? context.replicaId,
      groups: context.machines,
      isWell: verdict.kind === "fresh" && context.sessionFreeForMs === null,
      isGroupWell: context.isMachineWell,
    }),
  });
}

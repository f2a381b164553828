/** Whether the processes of some machine die or fall silent again and again. */
import { advise } from "../advice.ts";
import type { Database } from "../database/database.ts";
import { FLAPPING, flappingWords, type Reliability, reliabilityOf } from "../recovery/reliability.ts";
import { readUnrest } from "../sql/reliability.ts";
import { type Finding, good, skipped, warning } from "./finding.ts";

export async function checkFlapping(database: Database): Promise<Finding> {
  const unrest = await readUnrest(database, { latelyMs: FLAPPING.withinMs, recordMs: FLAPPING.withinMs });
  return judgeFlapping(unrest.map(reliabilityOf));
}

export function judgeFlapping(machines: readonly Reliability[]): Finding {
  if (machines.length === 0) return skipped("flapping", "no worker has run yet");
  const flapping = machines.filter(({ isFlapping }) => isFlapping);
  if (flapping.length > 0) {
    const found = flapping.map((machine) => `${machine.hostname}: ${flappingWords(machine)}`).join("; ");
    return warning("flapping", found, advise("See what they probably died of.", "post-mortems.list", {}));
  }
  const deaths = machines.reduce((sum, machine) => sum + machine.deathsLately, 0);
  const lately = deaths === 0 ? "no worker died" : deaths === 1 ? "one worker died" : `${deaths} workers died`;
  return good("flapping", `${lately} in the last hour, and no machine loses its workers again and again`);
}

/** What deaths and silences say about a machine. Pure. */
import type { MachineUnrest } from "../sql/reliability.ts";

/** "Often" is so many deaths and silences together within so long. */
export const FLAPPING = { atLeast: 3, withinMs: 3_600_000 } as const;

export interface Reliability {
  readonly machineId: string;
  readonly hostname: string;
  readonly upForMs: number | undefined;
  readonly observedForMs: number;
  readonly deaths: number;
  /** Silences that were worth a warning and passed, false deaths among them. */
  readonly silences: number;
  readonly deathsPerDay: number;
  /** Undefined where it never died. */
  readonly meanMsBetweenDeaths: number | undefined;
  /** It dies or falls silent often, of late. */
  readonly isFlapping: boolean;
  readonly deathsLately: number;
  readonly silencesLately: number;
}

const DAY_MS = 86_400_000;
/** A machine that was seen for the first time a minute ago and has died once does not die 1440 times a day. */
const LEAST_OBSERVED_MS = 3_600_000;

export function reliabilityOf(unrest: MachineUnrest): Reliability {
  const { deaths, observedForMs, deathsLately, silencesLately, upForMs } = unrest;
  return {
    ...unrest,
    upForMs: upForMs ?? undefined,
    deathsPerDay: (deaths * DAY_MS) / Math.max(observedForMs, LEAST_OBSERVED_MS),
    meanMsBetweenDeaths: deaths === 0 ? undefined : observedForMs / deaths,
    isFlapping: deathsLately + silencesLately >= FLAPPING.atLeast,
  };
}

/** "4 deaths and 1 silence in the last hour". */
export function flappingWords({ deathsLately, silencesLately }: Reliability): string {
  const deaths = `${deathsLately} ${deathsLately === 1 ? "death" : "deaths"}`;
  const silences = `${silencesLately} ${silencesLately === 1 ? "silence" : "silences"}`;
  const both = [...(deathsLately > 0 ? [deaths] : []), ...(silencesLately > 0 ? [silences] : [])];
  return `${both.join(" and ")} in the last hour`;
}

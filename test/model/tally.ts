/** Counts what happened in runs: a model that never comes to a point proves nothing about it. Pure. */
import type { Happening, History } from "./record.ts";

export function tally(history: History, counts: Map<string, number>): void {
  for (const entry of history) {
    for (const what of namesOf(entry)) counts.set(what, (counts.get(what) ?? 0) + 1);
  }
}

function namesOf(entry: Happening): string[] {
  switch (entry.kind) {
    case "wrote":
      return [`${entry.what} ${entry.verdict}`];
    case "beat":
      return [`beat ${entry.isHeard ? "heard" : "refused"}`];
    case "claimed":
      return entry.claims.map(({ state }) => state);
    case "rehomed":
      return entry.claims.map(() => "taken along");
    case "swept":
      return [
        entry.isListening ? "swept" : "swept by another just before",
        ...(entry.heldSince === undefined ? [] : ["held"]),
        ...entry.deaths.map(({ because }) => `dead: ${because}`),
        ...entry.recovered.map(({ action }) => `recovered: ${action}`),
      ];
    default:
      return [entry.kind];
  }
}

/** The alert about a mass death, as the guard of a source raises it. */
import type { NewAlert } from "../../src/alert-kinds.ts";

export function massDeath(message = "3 of 4 machines fell silent at once"): NewAlert<"mass-death"> {
  const details = { source: "hearts", counted: "machines", groups: 4, dying: 3, heldForMs: 9_000, isConfirmed: false };
  return { kind: "mass-death", subject: "hearts", message, details, part: "hearts" };
}

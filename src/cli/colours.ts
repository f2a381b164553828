/** Colour, only for people at a terminal who have not declined it (https://no-color.org). */
import { randomUUID } from "node:crypto";
import picocolors from "picocolors";
import { printable } from "./printable.ts";

export type Colours = ReturnType<typeof picocolors.createColors>;

const ESCAPE = "\x1b";

/**
 * Stands for the escape character in colours of our own until the line is written, so that one in a user's text is told from
 * them. Drawn anew in every process: nobody can put it into a text.
 */
const OWN_ESCAPE = `<${randomUUID()}>`;

export function coloursFor(stream: { readonly isTTY?: boolean }, env: NodeJS.ProcessEnv = process.env): Colours {
  if (!wantsColour(stream, env)) return picocolors.createColors(false);
  const names = Object.entries(picocolors.createColors(true)).map(([name, paint]) => [
    name,
    typeof paint === "function" ? (text: string) => paintOver(paint, text) : paint,
  ]);
  return Object.fromEntries(names) as Colours;
}

/** The line as it is written: colours of our own, and everything else in characters that can be read. */
export function rendered(line: string): string {
  return printable(line).replaceAll(OWN_ESCAPE, ESCAPE);
}

/** Colours within colours are picocolors' business, so it is shown the real escape character there, and no other. */
function paintOver(paint: Colours["red"], text: string): string {
  const safe = String(text).replaceAll(ESCAPE, "\\x1b").replaceAll(OWN_ESCAPE, ESCAPE);
  return paint(safe).replaceAll(ESCAPE, OWN_ESCAPE);
}

/** Not picocolors' own judgement, which also colours what a CI run writes into a file. */
function wantsColour(stream: { readonly isTTY?: boolean }, env: NodeJS.ProcessEnv): boolean {
  if (env["NO_COLOR"]) return false;
  const forced = env["FORCE_COLOR"];
  if (forced !== undefined && forced !== "") return forced !== "0";
  return stream.isTTY === true && env["TERM"] !== "dumb";
}

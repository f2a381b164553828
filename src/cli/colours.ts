/** Colour, only for people at a terminal who have not declined it (https://no-color.org). */
import picocolors from "picocolors";

export type Colours = ReturnType<typeof picocolors.createColors>;

export function coloursFor(stream: { readonly isTTY?: boolean }, env: NodeJS.ProcessEnv = process.env): Colours {
  return picocolors.createColors(wantsColour(stream, env));
}

/** Not picocolors' own judgement, which also colours what a CI run writes into a file. */
function wantsColour(stream: { readonly isTTY?: boolean }, env: NodeJS.ProcessEnv): boolean {
  if (env["NO_COLOR"]) return false;
  const forced = env["FORCE_COLOR"];
  if (forced !== undefined && forced !== "") return forced !== "0";
  return stream.isTTY === true && env["TERM"] !== "dumb";
}

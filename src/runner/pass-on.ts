/**
 * Passes what a runner prints on to a standard stream of its replica, in whole lines, so that lines of several runners do not get mixed up. It
 * never lets the runner wait: what that stream does not take is dropped and counted there.
 */
import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { outletOf } from "../outlet/outlets.ts";

const KEPT_CHARACTERS = 8_192;
/** The beginning of a line waits for its end, but not for long: it may be all that somebody wants to show for now. */
const END_WITHIN_MS = 100;
const LONGEST_WAITING = 65_536;

/** Each pipe has lines of its own. Returns the end of all that was passed on. */
export function passOn(pipes: readonly (Readable | null)[], name: "stdout" | "stderr"): () => string {
  let tail = "";
  for (const printed of pipes) {
    passOnOne(printed, name, (text) => {
      tail = (tail + text).slice(-KEPT_CHARACTERS);
    });
  }
  return () => tail;
}

function passOnOne(printed: Readable | null, name: "stdout" | "stderr", keep: (text: string) => void): void {
  const decoder = new StringDecoder("utf8");
  let begun = "";
  let timer: NodeJS.Timeout | undefined;
  const write = (text: string) => {
    clearTimeout(timer);
    if (text !== "") outletOf(process[name]).write(text);
  };
  const writeBegun = () => {
    write(begun);
    begun = "";
  };
  printed?.on("data", (chunk: Buffer) => {
    const text = decoder.write(chunk);
    keep(text);
    const end = text.lastIndexOf("\n") + 1;
    if (end > 0) write(begun + text.slice(0, end));
    begun = end > 0 ? text.slice(end) : begun + text;
    if (begun.length > LONGEST_WAITING) writeBegun();
    else if (begun !== "") {
      clearTimeout(timer);
      timer = setTimeout(writeBegun, END_WITHIN_MS).unref();
    }
  });
  // A pipe that breaks has ended.
  printed?.on("error", () => {});
  printed?.once("close", writeBegun);
}

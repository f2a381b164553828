/** Passes a runner's standard error on to that of its replica, as if it had been written there, and keeps the end of it. */
import type { Readable } from "node:stream";

const KEPT_CHARACTERS = 8_192;

export function keepTail(stderr: Readable | null): () => string {
  let tail = "";
  stderr?.setEncoding("utf8");
  stderr?.on("data", (text: string) => {
    tail = (tail + text).slice(-KEPT_CHARACTERS);
    // One that writes faster than it is read waits, as it would for a terminal.
    if (process.stderr.write(text)) return;
    stderr.pause();
    process.stderr.once("drain", () => stderr.resume());
  });
  return () => tail;
}

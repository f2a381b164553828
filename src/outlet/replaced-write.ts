/** Puts a function of ours in the place of a stream's `write`, which `console.log` and everybody else calls. */
import type { Chunk } from "../log-health.ts";

export type StandardStream = NodeJS.WriteStream & {
  /** Threads have none. */
  readonly fd: number;
  /** Files have none. */
  readonly _handle?: { setBlocking?(isBlocking: boolean): void };
};
export type OwnWrite = (chunk: Chunk, onWritten: (error?: Error | null) => void) => boolean;
type Done = (error?: Error | null) => void;

/** Returns the stream's own `write`. Undefined: somebody else has replaced it before, and keeps it. */
export function replaceWrite(stream: StandardStream, write: (chunk: Chunk) => boolean): OwnWrite | undefined {
  if (Object.hasOwn(stream, "write")) return undefined;
  const ownWrite = stream.write.bind(stream) as OwnWrite;
  // What was written before may still fail. That is an event, which ends a process in which nobody listens.
  stream.on("error", () => {});
  stream.write = (chunk: Chunk, encoding?: BufferEncoding | Done, done?: Done) => {
    const hasRoom = write(typeof encoding === "string" ? Buffer.from(chunk as string, encoding) : chunk);
    const callback = typeof encoding === "function" ? encoding : done;
    // Without an error: that a line could not be printed is no reason for its writer to fail.
    if (callback) process.nextTick(callback);
    return hasRoom;
  };
  return ownWrite;
}

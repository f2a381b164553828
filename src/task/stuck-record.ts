/** What is kept of the error that ended work whose loop was blocked: where that was, and not where the error was made. Pure. */
import type { ErrorRecord } from "./error-record.ts";
import { firstFrame } from "./stack-frames.ts";

export function stuckRecord(
  { code, message }: { code: string; message: string },
  stuck: { whose: "worker" | "runner"; ended: "process" | "runner"; stack: string | undefined },
): ErrorRecord {
  const { whose, ended, stack } = stuck;
  const where = stack === undefined ? "" : ` It was in: ${firstFrame(stack)}.`;
  return {
    code,
    message: `${message} It blocked its ${whose}'s event loop, so that it could not be told to stop, and its ${ended} was ended.${where}`,
    ...(stack === undefined ? {} : { stack }),
  };
}

/**
 * A pipe or a terminal that is opened once more, so that whether its writes block is our own matter. The first description is shared with every
 * process that has inherited the stream: to set it to "do not block" makes the prints of such a process fail while the reader is slow.
 */
import { constants, fstatSync, openSync } from "node:fs";
import { isatty } from "node:tty";

/** Undefined where that cannot be: outside of Linux, for a socket, without the right to it. Not for a file, whose position would be another. */
export function openOwnDescription(fd: number): number | undefined {
  try {
    if (!fstatSync(fd).isFIFO() && !isatty(fd)) return undefined;
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    return undefined;
  }
}

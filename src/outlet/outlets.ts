/**
 * The outlets of this process. A standard stream belongs to the whole process, and so does its outlet: the command line, the log and what
 * runners print share it, so that lines stay in order and are counted once. Therefore this one list is kept for the module.
 */
import { LogOutlet } from "./log-outlet.ts";
import type { StandardStream } from "./replaced-write.ts";

const outlets = new WeakMap<StandardStream, LogOutlet>();

export function outletOf(stream: StandardStream): LogOutlet {
  const outlet = outlets.get(stream) ?? new LogOutlet(stream);
  outlets.set(stream, outlet);
  return outlet;
}

/** For a process that has a pipe of its own for what it prints: from now on the stream's lines go there. To be called before anything is printed. */
export function leadThrough(stream: StandardStream, fd: number): void {
  outlets.set(stream, new LogOutlet(stream, fd));
}

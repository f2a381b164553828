/** One runner from its replica's side: something that can be spoken to, and ended. */
import type { FromRunner, ToRunner } from "./protocol.ts";

export interface RunnerExit {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  /** What a thread threw, or why a process could not be made. */
  readonly message: string | undefined;
}

export interface ChannelListener {
  onMessage(message: FromRunner): void;
  /** It cannot be understood any more: a handler has written where only its runner writes, or closed that. Why, in words. */
  onGarbled(why: string): void;
  /** Once. Nothing comes after it. */
  onExit(exit: RunnerExit): void;
}

export interface RunnerChannel {
  readonly pid: number;
  send(message: ToRunner): void;
  /** Asks it to end, and where it is stuck if it is: a process may put things in order, a thread is ended. */
  terminate(): void;
  /** Ends it, whatever it does. */
  kill(): void;
  /** The end of what it wrote to its standard error. */
  stderrTail(): string;
}

export interface ChannelOptions {
  /** Beyond this a runner's JavaScript heap ends it. */
  readonly heapLimitMb: number | undefined;
  /** The replica's lease, for processes. */
  readonly leaseFd: number | undefined;
  /** What each of its messages begins with. */
  readonly seal: string;
  /** How many characters a message can have at the most. */
  readonly longestMessage: number;
  /** For threads, whose loops this process watches: processes have hearts for that. */
  readonly stackAfterMs: number;
}

export type OpenChannel = (listener: ChannelListener, options: ChannelOptions) => RunnerChannel;

/** The terminal at which this process was started, if there is one: the one that belongs to its session, and what it reads and writes. */
import { closeSync, constants, openSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { isatty } from "node:tty";

const LOOK_INTERVAL_MS = 1_000;
/** The shell hears of it first, and may take its time to pass it on. */
const IS_CLOSING_FOR_MS = 10_000;

interface TerminalParts {
  /** Whether the session of this process has a terminal, whatever it reads and writes. */
  readonly hasOwn: () => boolean;
  readonly now: () => number;
}

export class Terminal {
  readonly #parts: TerminalParts;
  readonly #descriptors = [0, 1, 2].filter((fd) => isatty(fd));
  readonly #hadOwn: boolean;
  #goneSinceMs: number | undefined;

  constructor(parts: TerminalParts = { hasOwn: hasTerminal, now: () => performance.now() }) {
    this.#parts = parts;
    this.#hadOwn = parts.hasOwn();
  }

  /** It was closed just now: a SIGHUP that comes now is about that. One that comes later to a process that was left running is not. */
  get isClosing(): boolean {
    this.#look();
    return this.#goneSinceMs !== undefined && this.#parts.now() - this.#goneSinceMs < IS_CLOSING_FOR_MS;
  }

  /** So that it is known when it was closed, until the function that this returns is called. */
  watch(): () => void {
    const looking = setInterval(() => this.#look(), LOOK_INTERVAL_MS);
    looking.unref();
    return () => clearInterval(looking);
  }

  #look(): void {
    if (this.#goneSinceMs !== undefined) return;
    const isGone = this.#areDescriptorsGone() || (this.#hadOwn && !this.#parts.hasOwn());
    if (isGone) this.#goneSinceMs = this.#parts.now();
  }

  /** What was a terminal is none any more. */
  #areDescriptorsGone(): boolean {
    return this.#descriptors.some((fd) => !isatty(fd));
  }

  /**
   * At the end of the process. Node puts the modes of its terminal back then, and aborts where that fails because the terminal is gone. It
   * leaves alone what is closed.
   */
  letGo(): void {
    if (!this.#areDescriptorsGone()) return;
    for (const fd of this.#descriptors) {
      try {
        closeSync(fd);
      } catch {
        // Somebody has closed it before.
      }
    }
  }
}

function hasTerminal(): boolean {
  try {
    closeSync(openSync("/dev/tty", constants.O_RDONLY | (constants.O_NOCTTY ?? 0) | (constants.O_NONBLOCK ?? 0)));
    return true;
  } catch {
    return false;
  }
}

/** The terminal at which this process was started, if there is one. */
import { closeSync } from "node:fs";
import { isatty } from "node:tty";

export class Terminal {
  readonly #descriptors = [0, 1, 2].filter((fd) => isatty(fd));

  /** It was closed: what was a terminal is none any more. */
  get isGone(): boolean {
    return this.#descriptors.some((fd) => !isatty(fd));
  }

  /**
   * At the end of the process. Node puts the modes of its terminal back then, and aborts where that fails because the terminal is gone. It
   * leaves alone what is closed.
   */
  letGo(): void {
    if (!this.isGone) return;
    for (const fd of this.#descriptors) {
      try {
        closeSync(fd);
      } catch {
        // Somebody has closed it before.
      }
    }
  }
}

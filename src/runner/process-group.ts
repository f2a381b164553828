/**
 * A runner's process leads a process group of its own. Processes that its handlers start are in that group, so that they can be ended
 * with it. This is the replica's side; there are no process groups on Windows, where only the runner itself is ended.
 *
 *   runner lives ── signal(): by the number of the group, which is the runner's own
 *   runner ends  ── end(): by its guardian (guardian.ts), a member of the group that is told over a pipe
 *
 * A number can be given to another process once its own is gone and the group is empty. So it is used only while the runner lives, or in the
 * very turn in which its end is known, which is when that number became free: the kernel hands out all others first.
 */
import type { ChildProcess } from "node:child_process";
import type { Duplex } from "node:stream";

export const HAS_GROUPS = process.platform !== "win32";

export class ProcessGroup {
  readonly #leader: ChildProcess;
  /** The guardian's pipe. It is closed when the guardian is gone, and null where there is none. */
  readonly #guard: Duplex | null;

  constructor(leader: ChildProcess, guard: Duplex | null) {
    this.#leader = leader;
    this.#guard = guard;
    // The pipe is read to learn of its end.
    guard?.resume().on("error", () => {});
  }

  /** Nothing once the runner has ended: end() is for what is left then. */
  signal(signal: NodeJS.Signals): void {
    const { exitCode, signalCode } = this.#leader;
    if (exitCode === null && signalCode === null) this.#signalAll(signal);
  }

  /** Ends what the runner has left. To be called in the turn in which the runner's end is known. */
  end(): void {
    if (!HAS_GROUPS) return;
    // A guardian that has just been killed hears nothing; then the write fails before anything else is done.
    if (this.#guard?.writable && !this.#guard.readableEnded)
      this.#guard.write("\n", (error) => error && this.#signalAll("SIGKILL"));
    else this.#signalAll("SIGKILL");
  }

  #signalAll(signal: NodeJS.Signals): void {
    const { pid } = this.#leader;
    if (pid === undefined) return;
    if (!HAS_GROUPS) return void this.#leader.kill(signal);
    try {
      process.kill(-pid, signal);
    } catch {
      // The group is empty.
    }
  }
}

/**
 * A runner's process leads a process group of its own. Processes that its handlers start are in that group, so that they can be ended
 * with it. This is the replica's side; there are no process groups on Windows, where only the runner itself is ended.
 *
 *   runner lives ── signal(): by the number of the group, which is the runner's own
 *   runner ends  ── end(): by that number, and by its guardian (guardian.ts), a member of the group that is told over a pipe
 *
 * A number can be given to another process once its own is gone and the group is empty. As long as anything of the group is left, its guardian for
 * example, the number is the group's. Where nothing is left, it became free in the very turn in which the end of the runner is known, and the kernel hands
 * out all others first. So it is used while the runner lives and in that turn, and never later.
 */
import type { ChildProcess } from "node:child_process";
import type { Duplex } from "node:stream";

export const HAS_GROUPS = process.platform !== "win32";

export class ProcessGroup {
  readonly #leader: ChildProcess;
  /** The guardian's pipe. Null where there is none. */
  readonly #guard: Duplex | null;

  constructor(leader: ChildProcess, guard: Duplex | null) {
    this.#leader = leader;
    this.#guard = guard;
    // Read, since the runner's channel is closed once all of its pipes have ended. Where the guardian is gone, a write fails.
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
    // A guardian that is stopped hears nothing, and neither does one that has been killed and whose pipe has not ended yet. So it is not waited for.
    if (this.#guard?.writable) this.#guard.write("\n");
    this.#signalAll("SIGKILL");
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

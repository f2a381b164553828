/**
 * A runner's guardian: a shell in the runner's process group that waits on a pipe whose other end only the replica holds. When the replica
 * says so, or is gone, the guardian ends the group, itself included. So nothing of a runner goes on when the runner crashes, nor when the replica
 * and the runner are killed at once. The guardian names no process by its number: it signals the group that it is in. This is the runner's side.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync } from "node:fs";
import { GUARD_FD } from "./pipes.ts";

/** Undefined where there is no shell: on Windows, and in the smallest of images. */
export const GUARDIAN_SHELL = ["/bin/sh"].find((path) => process.platform !== "win32" && existsSync(path));

/**
 * How long the guardian waits when its replica is gone. The runner's heart ends the group sooner, in half of this (ORPHAN_GRACE_MS), and gives the
 * handler that moment. So the guardian acts only where the runner is gone too. Whoever reports the end of the replica waits until the guardian has
 * acted (RUNNERS_END_WITHIN_MS).
 */
const GUARDIAN_GRACE_MS = 100;

/** What a handler sends to the whole group does not end the guardian. A line on the pipe means at once; its end means that the replica is gone. */
const SCRIPT = `trap "" HUP INT QUIT TERM USR1 USR2 ALRM; read -r now || sleep ${GUARDIAN_GRACE_MS / 1_000}; kill -KILL 0`;

export class Guardian {
  #shell: ChildProcess | undefined;

  /** Before anything of the user's runs in this process. */
  constructor() {
    if (!GUARDIAN_SHELL) return;
    this.#shell = startShell(GUARDIAN_SHELL, () => {
      this.#shell = undefined;
    });
    this.#shell?.unref();
    // From here on the guardian alone holds this end of the pipe. Where there is none, the replica sees the pipe's end.
    closeSync(GUARD_FD);
  }

  get pid(): number | undefined {
    return this.#shell?.pid;
  }

  /**
   * The runner leaves by itself, and its replica ends what it leaves behind. A guardian that outlived it would stay as a zombie wherever
   * the first process of a container does not wait for the children of others.
   */
  dismiss(onGone: () => void): void {
    const shell = this.#shell;
    if (!shell || shell.exitCode !== null || shell.signalCode !== null) {
      onGone();
      return;
    }
    shell.ref();
    shell.once("exit", onGone);
    shell.kill("SIGKILL");
  }
}

/** Undefined, or `onFailed`, where no process can be started: the runner works without a guardian. */
function startShell(shell: string, onFailed: () => void): ChildProcess | undefined {
  try {
    return spawn(shell, ["-c", SCRIPT, "everbeat-guardian"], {
      ...{ stdio: [GUARD_FD, "ignore", "ignore"], cwd: "/", env: { PATH: "/usr/bin:/bin" } },
    }).on("error", onFailed);
  } catch {
    return undefined;
  }
}

/** Ends this process and all others of its group. */
export function endOwnGroup(): void {
  process.kill(process.platform === "win32" ? process.pid : 0, "SIGKILL");
}

/** A supervisor from its start until it is asked to stop, or has no child left. */
import { fork } from "node:child_process";
import { hostname } from "node:os";
import type { Everbeat } from "../everbeat.ts";
import type { Logger } from "../log.ts";
import type { RestartPolicy } from "../supervisor/restart.ts";
import { CHILD_VARIABLE } from "../supervisor/supervised.ts";
import { Supervisor } from "../supervisor/supervisor.ts";
import { Terminal } from "../terminal.ts";
import { atMost } from "../worker/waiting.ts";
import { EXIT, type ExitCode } from "./exit-codes.ts";
import type { Screen } from "./screen.ts";
import { listenForStop } from "./stop-signals.ts";

const CLOSE_WITHIN_MS = 3_000;

export interface SupervisorRun {
  readonly everbeat: Everbeat;
  readonly log: Logger;
  readonly screen: Screen;
  /** The files with the tasks, as given. */
  readonly files: readonly string[];
  readonly processes: number;
  readonly restart: RestartPolicy;
  /** How long running tasks may take to end, and then their handlers to stop. */
  readonly gracesMs: number;
}

/** As with one worker: gracefully at the first signal, at once at the second, by force at the third. SIGHUP rolls, unless a terminal sends it that closes. */
export async function runSupervisor(run: SupervisorRun): Promise<ExitCode> {
  const { everbeat, log, screen, files, processes, restart, gracesMs } = run;
  const name = `${hostname()} ${files.join(" ")}`;
  const supervisor = new Supervisor({
    ...{ everbeat, log, processes, restart, gracesMs, name, spawn: startAgainAsChild },
  });
  const terminal = new Terminal();
  const stopWatching = terminal.watch();
  const stop = listenForStop(() => {
    if (terminal.isClosing) return false;
    supervisor.roll();
    return true;
  });
  void stop.first.then(() => {
    if (screen.isTerminal) screen.remark("Stopping when all tasks have ended. Ctrl-C again: at once.");
    supervisor.leave({ now: false });
  });
  void stop.second.then(() => supervisor.leave({ now: true }));
  void stop.third.then(() => supervisor.kill());
  try {
    const end = await supervisor.run();
    if (end === "none-left") log.error({}, "every child is in a crash loop, so the supervisor ends");
    return end === "left" ? EXIT.ok : EXIT.failed;
  } finally {
    stop.close();
    stopWatching();
    // A reply that never comes would hold it up for ever.
    await atMost(CLOSE_WITHIN_MS, everbeat.close());
  }
}

/** The same command line; the variable says that it is a child's. The path as it was given: a deploy may put new code there. */
function startAgainAsChild(child: number) {
  const [, main = "", ...args] = process.argv;
  return fork(main, args, {
    env: { ...process.env, [CHILD_VARIABLE]: String(child) },
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
}

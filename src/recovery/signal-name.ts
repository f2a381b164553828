/** The names of signals that a process can have ended by. The list is the same on every system: who reports an exit may run on another one. */
import { type Check, describe, unknownKey } from "../config/checks.ts";

const SIGNALS: readonly string[] = [
  ...["SIGABRT", "SIGALRM", "SIGBREAK", "SIGBUS", "SIGCHLD", "SIGCONT", "SIGEMT", "SIGFPE", "SIGHUP", "SIGILL"],
  ...[
    "SIGINFO",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGLOST",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
  ],
  ...["SIGSEGV", "SIGSTKFLT", "SIGSTOP", "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGUNUSED"],
  ...["SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGWINCH", "SIGXCPU", "SIGXFSZ"],
  ...["SIGRTMIN", "SIGRTMAX"],
];
/** Signals of real time are counted from the first or from the last of them. */
const REAL_TIME = /^SIGRT(MIN\+|MAX-)\d{1,2}$/;

export const isSignalName: Check<string> = (value, path, problems) => {
  if (typeof value !== "string")
    problems.add(path, `must be the name of a signal, such as "SIGKILL", not ${describe(value)}`);
  else if (SIGNALS.includes(value) || REAL_TIME.test(value)) return value;
  else problems.add(path, unknownKey(value, SIGNALS, "signal"));
  return undefined;
};

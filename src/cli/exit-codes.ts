/** What the shell is told: all went well, something failed, the command was not used rightly, or Ctrl-C ended it (128 and the number of SIGINT). */
export const EXIT = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

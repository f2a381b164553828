/** What the shell is told. */
import type { ErrorKind } from "../errors.ts";

/** All went well, something failed, the command was not used rightly, or Ctrl-C ended it (128 and the number of SIGINT). */
export const EXIT = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Of an error. */
export const EXIT_OF_KINDS: Readonly<Record<ErrorKind, ExitCode>> = {
  "bad-request": EXIT.usage,
  "not-found": EXIT.failed,
  conflict: EXIT.failed,
  "not-now": EXIT.failed,
  refused: EXIT.failed,
  unavailable: EXIT.failed,
  internal: EXIT.failed,
};

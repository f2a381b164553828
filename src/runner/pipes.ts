/** What a runner's process has of its replica besides the usual three: which is which, on the process's side. */
export const MESSAGES_FD = 3;
export const HEART_FD = 4;
/** Not a pipe but the lease: see heart/lease.ts. */
export const LEASE_FD = 5;
/** For the runner's guardian alone: see guardian.ts. */
export const GUARD_FD = 6;
/**
 * What handlers print goes this way. Standard output and error are left to the programs that handlers start, which share them: a write to these
 * pipes does not wait for the reader, and on a pipe that is shared that would be so for the programs too, whose prints would fail (EAGAIN).
 */
export const PRINTED_FDS = { stdout: 7, stderr: 8 } as const;

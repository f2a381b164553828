/** What a runner's process has of its replica besides the usual three: which is which, on the process's side. */
export const MESSAGES_FD = 3;
export const HEART_FD = 4;
/** Not a pipe but the lease: see heart/lease.ts. */
export const LEASE_FD = 5;
/** For the runner's guardian alone: see guardian.ts. */
export const GUARD_FD = 6;

/** The pipes between a replica and a process of its: which is which, on the process's side. */
export const MESSAGES_FD = 3;
export const HEART_FD = 4;

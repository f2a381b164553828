/**
 * Everything that runs in the background at intervals, in one list. What a process does for itself all the time (its heart, its notices, its search for
 * tasks) is no service: it is described with its part.
 */
export type Scope =
  /** In every process that has the part. */
  | "process"
  /** In one process at a time, whichever takes its turn (see cluster-services.ts). */
  | "cluster";

interface Entry {
  readonly scope: Scope;
  /** Undefined: by a setting, which `interval` names. */
  readonly everyMs?: number;
  readonly interval: string;
  readonly does: string;
}

export const SERVICES = {
  sweep: {
    ...{ scope: "cluster", interval: "`checkInterval`" },
    does: "listens for silence, gives verdicts, recovers tasks",
  },
  stalls: {
    ...{ scope: "cluster", everyMs: 1_000, interval: "1 s, or `checkInterval` if that is longer" },
    does: "looks for attempts that make no progress",
  },
  upkeep: {
    ...{ scope: "cluster", everyMs: 5_000, interval: "5 s" },
    does: "expires tasks, lets parked ones go, forces overdue cancellations, removes empty lanes",
  },
  purge: {
    ...{ scope: "cluster", interval: "`purgeInterval`" },
    does: "removes from the record what is old",
  },
  turns: {
    ...{ scope: "process", interval: "`checkInterval`; far more seldom in line" },
    does: "asks which of the services of the cluster are due here, and runs them",
  },
  retention: {
    ...{
      scope: "process",
      everyMs: 5_000,
      interval: "30 s; a twentieth of `maxAge` if that is shorter, and 5 s at least",
    },
    does: "removes ended tasks, by the `retention` of a worker",
  },
  "acting settings": {
    ...{ scope: "process", everyMs: 5_000, interval: "5 s" },
    does: "reads by which settings the workers recover, where a process runs the services and is no worker",
  },
  "claim watch": {
    ...{ scope: "process", interval: "`pollInterval`" },
    does: "looks which claims still hold and which should be given up",
  },
  "log watch": {
    ...{ scope: "process", everyMs: 1_000, interval: "1 s" },
    does: "tells of log lines that are dropped",
  },
  "alert watch": {
    ...{ scope: "process", everyMs: 30_000, interval: "30 s, and with each notice; 2 s where no notices come" },
    does: "tells listeners of alerts that are raised and resolved anywhere",
  },
  "alert delivery": {
    ...{ scope: "process", everyMs: 30_000, interval: "30 s, and with each notice; 2 s where no notices come" },
    does: "delivers changes of alerts to a channel of this process",
  },
  // An exit finds a connection that is open: the pool closes those that nobody has used for ten seconds.
  "database look": {
    ...{ scope: "process", everyMs: 5_000, interval: "5 s" },
    does: "keeps a supervisor's connection in use",
  },
  "still children": {
    ...{ scope: "process", everyMs: 1_000, interval: "1 s" },
    does: "finds out which of a supervisor's children stand still",
  },
  "open alerts": {
    ...{ scope: "process", everyMs: 60_000, interval: "1 min, while some are open" },
    does: "says again which alerts this process keeps open",
  },
  // A kill for want of memory is told of by what the group held at the last two looks.
  "shared memory": {
    ...{ scope: "process", everyMs: 500, interval: "0.5 s" },
    does: "looks at the memory that a supervisor's children share",
  },
} as const satisfies Record<string, Entry>;

export type ServiceName = keyof typeof SERVICES;

export type ClusterServiceName = {
  [Name in ServiceName]: (typeof SERVICES)[Name]["scope"] extends "cluster" ? Name : never;
}[ServiceName];

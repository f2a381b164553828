/**
 * The child's side. A supervised worker says who it is and when it is ready, and leaves when it is told to.
 *
 * Its supervisor decides what a second signal means: a terminal and a service manager send each signal to the whole group of
 * processes, so here any number of them asks to leave gracefully. When the supervisor is gone, nobody would start this worker
 * again; it drains and leaves too, and from then on a further signal means "now".
 */
import type { Everbeat } from "../everbeat.ts";
import { markAsSupervised } from "../supervised-process.ts";
import type { ReplicaId } from "../task/ids.ts";
import { type ChildMessage, readSupervisorMessage } from "./messages.ts";

/** Holds the number of the child's place. Taken out again at once: the children of a handler are not supervised. */
export const CHILD_VARIABLE = "EVERBEAT_CHILD";

export interface SupervisorLink {
  /** The number of this child's place. */
  readonly child: number;
  readonly leave: Promise<void>;
  readonly leaveNow: Promise<void>;
  /** It leaves because its supervisor is gone, and for no order. */
  readonly orphaned: Promise<void>;
  /** Before it starts to work: says when it has joined, and when it is ready. */
  tellOf(everbeat: Everbeat): void;
  /** While this is waited for, the link does not keep the process alive: that nothing is left to do can be noticed. */
  asleep<T>(work: Promise<T>): Promise<T>;
  /** What it was given to run cannot be run. */
  refuse(): void;
}

/** Undefined in a process that nobody supervises. */
export function linkToSupervisor(): SupervisorLink | undefined {
  const child = Number(process.env[CHILD_VARIABLE]);
  delete process.env[CHILD_VARIABLE];
  if (!Number.isInteger(child) || child < 1) return undefined;
  markAsSupervised();
  const [leave, leaveNow, orphaned] = [new AbortController(), new AbortController(), new AbortController()];
  const onSignal = () => (leave.signal.aborted && !process.connected ? leaveNow : leave).abort();
  process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
  // Not a signal to stop, as it is to other workers: the supervisor gets it too, decides whether it means a roll or a terminal that has closed,
  // and tells this child by the channel. Without a listener it would end this process.
  process.on("SIGHUP", () => {});
  const onDisconnect = () => {
    if (!leave.signal.aborted) orphaned.abort();
    leave.abort();
  };
  process.on("disconnect", onDisconnect);
  if (!process.connected) onDisconnect();
  process.on("message", (message) => {
    const order = readSupervisorMessage(message);
    if (order?.everbeat === "leave") leave.abort();
    if (order?.everbeat === "leave-now") leaveNow.abort();
    if (order?.everbeat === "answer") tell({ everbeat: "here" });
  });
  return {
    child,
    leave: fired(leave.signal),
    leaveNow: fired(leaveNow.signal),
    orphaned: fired(orphaned.signal),
    tellOf: tellOfReplicas,
    asleep: unheldBy,
    refuse: () => tell({ everbeat: "refused" }),
  };
}

function tellOfReplicas(everbeat: Everbeat): void {
  let beating: ReplicaId | undefined;
  let joined: ReplicaId | undefined;
  const sayReady = () => {
    if (joined !== undefined && joined === beating) tell({ everbeat: "ready", replicaId: joined });
  };
  everbeat.on("heart.beating", ({ replicaId }) => {
    const isNews = beating !== replicaId;
    beating = replicaId;
    if (isNews) sayReady();
  });
  for (const event of ["worker.started", "replica.rejoined"] as const) {
    everbeat.on(event, ({ replicaId }) => {
      joined = replicaId;
      tell({ everbeat: "joined", replicaId });
      sayReady();
    });
  }
}

async function unheldBy<T>(work: Promise<T>): Promise<T> {
  process.channel?.unref();
  return work.finally(() => process.channel?.ref());
}

function tell(message: ChildMessage): void {
  // The supervisor may be gone already, which is heard as a disconnect.
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}

function fired(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}

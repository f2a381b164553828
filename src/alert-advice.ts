/** What to do about an alert, by its kind, what it is about and what it carries. Pure. */
import { type Advice, advise } from "./advice.ts";
import { type AlertKind, HEARTS, isAlertKind } from "./alert-kinds.ts";

interface AlertOnRecord {
  readonly kind: string;
  readonly subject: string;
  readonly details: unknown;
}

/** An alert on record may be of a kind that only a newer version knows, and its details may be odd. */
export function adviceOnAlert(alert: AlertOnRecord): readonly Advice[] {
  return isAlertKind(alert.kind) ? ADVICE[alert.kind](alert) : [];
}

/** A queue that was paused because nothing can be claimed from it. */
export function adviceOnTrouble(queue: string): Advice[] {
  const without = { name: queue, rateLimit: null };
  return [
    advise("If its rate limit is at fault, take that away, or set another.", "queues.set", without),
    advise("When what is wrong is put right, let its tasks start again.", "queues.resume", { name: queue }),
  ];
}

/** Of one source: those of other sources that are held, too, may be alive. */
export function adviceOnHold({ source, counted }: { readonly source: string; readonly counted: string }): Advice {
  return advise(`Confirm it, if those ${counted} are dead indeed.`, "recovery.confirm", { source });
}

const CONFIRM_ALL = advise("Confirm it, if those who fell silent are dead indeed.", "recovery.confirm", {});

const NONE = () => [];

/** The compiler asks for the advice on each kind. Where there is none, the message says all that there is. */
const ADVICE: { readonly [Kind in AlertKind]: (alert: AlertOnRecord) => readonly Advice[] } = {
  "mass-death": ({ details }) => {
    const [source, counted] = [read(details, "source"), read(details, "counted")];
    const isKnown = typeof source === "string" && typeof counted === "string";
    const confirm = isKnown ? adviceOnHold({ source, counted }) : CONFIRM_ALL;
    return isKnown && source !== HEARTS
      ? [confirm]
      : [advise("See which workers are heard.", "replicas.list", {}), confirm];
  },
  "sweeps-stopped": () => [advise("See what holds up the sweeps.", "doctor", {})],
  "claims-failing": NONE,
  "crash-loop": () => [advise("See what its processes probably died of.", "post-mortems.list", {})],
  "queue-not-usable": ({ subject }) => adviceOnTrouble(subject),
  "runners-suspended": NONE,
  "queue-locked": NONE,
  "not-claimable": ({ details }) =>
    onTask(read(details, "task"), (id) => advise("Put that right, then run it again.", "tasks.retry", { ids: [id] })),
  // Its subject is "task 0198…".
  "outcome-stuck": ({ subject }) => onTask(subject.split(" ").at(-1), howItIsDoing),
  "task-stalled": ({ subject }) => [
    ...onTask(subject, howItIsDoing),
    ...onTask(subject, (id) => advise("Cancel it, if it should not go on.", "tasks.cancel", { ids: [id] })),
  ],
  // Its subject is a replica, or a runner. Its tasks are in the order in which they are suspected.
  "loop-blocked": ({ subject, details }) => {
    const tasks = read(details, "tasks");
    return [
      ...onTask(read(Array.isArray(tasks) ? tasks[0] : undefined, "taskId"), (id) =>
        advise("See in which code it is stuck.", "tasks.explain", { id }),
      ),
      ...onTask(subject, (of) =>
        advise("If it was ended for that, see for which task, and where that was stuck.", "post-mortems.show", { of }),
      ),
    ];
  },
  "child-still": NONE,
  "log-dropped": NONE,
  "roll-stopped": NONE,
  "service-stuck": () => [{ sentence: "Start that process again, so that it can run the service." }],
  "sweep-passed-by": NONE,
  "upkeep-passed-by": NONE,
};

function howItIsDoing(id: string): Advice {
  return advise("See how the task is doing.", "tasks.explain", { id });
}

function onTask(id: unknown, adviceOn: (id: string) => Advice): Advice[] {
  return typeof id === "string" && /^[\da-f-]{36}$/i.test(id) ? [adviceOn(id)] : [];
}

function read(details: unknown, key: string): unknown {
  return typeof details === "object" && details !== null ? (details as Record<string, unknown>)[key] : undefined;
}

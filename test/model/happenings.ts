/** Words to write a history with, for tests of the checker. */
import { checkRecord } from "./check-record.ts";
import { settingsOf } from "./kinds.ts";
import type { Happening, History, Place, Record, Window } from "./record.ts";

export const settings = settingsOf("usual");
export const PROMISE = { promiseMs: 90_000, sessionPromiseMs: 16_000 };

/** What happens at this second, within some milliseconds. */
export const at = (second: number, happening: Happening): Window & Happening => ({
  ...{ from: second * 1_000, to: second * 1_000 + 5 },
  ...happening,
});

export const joined = (replica: string, machine = replica): Happening => ({
  kind: "joined",
  replica,
  machine,
  ...PROMISE,
});
export const heard = (replica: string): Happening => ({ kind: "beat", replica, isHeard: true, hasSession: true });
export const session = (replica: string, isHeld: boolean): Happening => ({ kind: "session", replica, isHeld });
export const enqueued = (task: string, exclusive?: { key: string; limit: number }): Happening => ({
  ...{ kind: "enqueued", task, exclusive },
});
export const claimed = (
  replica: string,
  claim: string,
  task: string,
  state: "claimed" | "running" = "running",
): Happening => ({
  ...{ kind: "claimed", replica, claims: [{ claim, task, state }] },
});
export const wrote = (
  what: Extract<Happening, { kind: "wrote" }>["what"],
  claim: string,
  verdict: "accepted" | "refused" | "repeat",
  task = "t",
): Happening => ({
  kind: "wrote",
  what,
  claim,
  task,
  replica: "a",
  verdict,
  outcome: what === "finish" ? "completed" : undefined,
});
export type Swept = Extract<Happening, { kind: "swept" }>;
export const swept = (by: string, more: Partial<Swept> = {}): Swept => ({
  ...{ kind: "swept", by, settings, isListening: true, heldSince: undefined, deaths: [], recovered: [] },
  ...more,
});
export const epoch: Happening = { kind: "epoch" };
export const remembered: Happening = { kind: "remembered" };
export const forgot: Happening = { kind: "forgot" };
export const looked = (...places: Place[]): Happening => ({ kind: "looked", places });
export const dead = (...replicas: string[]) => ({
  deaths: replicas.map((replica) => ({ replica, because: "silent" })),
});
export const sessionLost = (replica: string) => ({ deaths: [{ replica, because: "session-lost" }] });

export const place = (task: string, table: Place["table"], more: Partial<Place> = {}): Place => ({
  ...{ task, table, attempt: 1, queue: "default", claim: null, replica: null, state: null },
  ...more,
});
export const running = (task: string, claim: string, replica: string, state: "claimed" | "running" = "running") =>
  place(task, "running", { claim, replica, state });

/** Heard by somebody else all the time, and listened to: what b needs to be judged. */
export const listened = (from: number, to: number, by = "a"): History =>
  Array.from({ length: (to - from) / 10 + 1 }, (_, index) => from + index * 10).flatMap((second) => [
    at(second, heard(by)),
    at(second, swept(by)),
  ]);

const EMPTY: Record = {
  ...{ tasks: [], places: [], attempts: [], late: [], replicas: [], alerts: [], queueLimits: {} },
};
export const problemsOf = (history: History, record: Partial<Record> = {}) =>
  checkRecord(history, { ...EMPTY, ...record });

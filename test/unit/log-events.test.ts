/** What events say in the log. */
import { expect, test } from "vitest";
import { Events, type EverbeatEvents } from "../../src/events.ts";
import { logEvents } from "../../src/log-events.ts";
import type { ReplicaId } from "../../src/task/ids.ts";
import { recordingLogger } from "../../src/testing/recording-logger.ts";

const fail = (error: unknown) => {
  throw error;
};

test.each([
  ["retried", "session-lost", "resize was recovered: retried (session-lost)"],
  ["released", "silent", "resize was recovered: released (silent)"],
  ["failed", "by-hand", "resize was recovered: failed (by-hand)"],
] as const)("a task that was %s (%s) is not said to have lost a worker that may be alive", (action, because, line) => {
  const logger = recordingLogger();
  const events = new Events(fail);
  logEvents(events, logger);
  const task = { taskId: "t", claimId: "1", name: "resize", attempt: 1, replicaId: "r" };
  events.emit("task.recovered", { ...task, action, because } as EverbeatEvents["task.recovered"]);
  expect(logger.lines.map(({ message }) => message)).toEqual([line]);
});

const linesOf = (emit: (events: Events) => void) => {
  const logger = recordingLogger();
  const events = new Events(fail);
  logEvents(events, logger);
  emit(events);
  return logger.lines;
};

test("an error that is no task's does not say that a task failed", () => {
  const error = new Error("Connection terminated unexpectedly");
  const [lost] = linesOf((events) => events.emit("database.lost", { error, doing: "claiming" }));
  expect(lost?.message).toBe(
    "the database cannot be reached while claiming; trying again: Connection terminated unexpectedly",
  );
  expect(lost?.fields).toMatchObject({ error: { code: "ERROR", message: "Connection terminated unexpectedly" } });
  const ended = { taskId: "t", outcome: "failed", durationMs: 1, willRunAgain: false, error };
  const [failed] = linesOf((events) => events.emit("task.ended", ended as unknown as EverbeatEvents["task.ended"]));
  expect(failed?.fields).toMatchObject({ error: { code: "TASK_FAILED" } });
});

test("what the line says is not a field of it once more", () => {
  const event = { replicaId: "r", isServerDown: true, message: "it is gone" } as EverbeatEvents["heart.lost"];
  const [line] = linesOf((events) => events.emit("heart.lost", event));
  expect(line?.message).toBe("the heart lost its connection: it is gone");
  expect(line?.fields).toEqual({ event: "heart.lost", replicaId: "r", isServerDown: true });
});

test("that the database is back is said as loudly as that it was lost", () => {
  const logger = recordingLogger();
  const events = new Events(fail);
  logEvents(events, logger);
  events.emit("database.lost", { error: new Error("gone"), doing: "claiming" });
  events.emit("database.back", { doing: "claiming" });
  expect(logger.lines.map(({ level }) => level)).toEqual(["warn", "warn"]);
});

test("a thread that could not be ended has not exited", () => {
  const runner = {
    runnerId: "r",
    replicaId: "x" as ReplicaId,
    kind: "thread",
    pid: 7,
    exitCode: null,
    signal: null,
  } as const;
  const [line] = linesOf((events) =>
    events.emit("runner.ended", {
      ...{ ...runner, because: "aborted", message: "it cannot be ended and was left to itself", claimId: undefined },
    }),
  );
  expect(line?.message).toBe("runner r (thread, process 7) ended: aborted, it cannot be ended and was left to itself");
});

/** The checker itself: a small sound record has no problem, and each way of breaking it has the right one. */
import { describe, expect, test } from "vitest";
import {
  at,
  claimed,
  dead,
  enqueued,
  heard,
  joined,
  listened,
  looked,
  place,
  problemsOf,
  running,
  type Swept,
  session,
  sessionLost,
  swept,
  wrote,
} from "./happenings.ts";
import type { Happening, History, Record } from "./record.ts";

describe("a sound record", () => {
  test("has no problem", () => {
    const history = [
      ...[
        at(0, joined("a")),
        at(0, enqueued("t")),
        at(1, claimed("a", "1", "t")),
        at(1, looked(running("t", "1", "a"))),
      ],
      ...[at(2, wrote("guard", "1", "accepted")), at(2, wrote("finish", "1", "accepted"))],
      ...[at(3, looked(place("t", "ended")))],
    ];
    const record = {
      ...{ tasks: ["t"], places: [place("t", "ended")], attempts: [{ claim: "1", task: "t", attempt: 1 }] },
      replicas: [{ id: "a", status: "online", isHeartDead: false }],
    };
    expect(problemsOf(history, record)).toEqual([]);
  });

  test("has none either where a replica is silent for long enough and recovered", () => {
    const history = [
      ...[at(0, joined("a")), at(0, joined("b")), at(0, enqueued("t")), at(0, claimed("b", "1", "t"))],
      ...[...listened(0, 100), at(105, heard("a"))],
      at(105, swept("a", { ...dead("b"), recovered: [{ claim: "1", replica: "b", action: "retried" }] })),
      ...[at(105, looked(place("t", "ready", { attempt: 2 }))), at(106, wrote("finish", "1", "refused"))],
    ];
    const record = {
      ...{ tasks: ["t"], places: [place("t", "ready", { attempt: 2 })] },
      ...{ attempts: [{ claim: "1", task: "t", attempt: 1 }], late: [{ claim: "1", outcome: "completed" }] },
      replicas: [{ id: "b", status: "dead", isHeartDead: true }],
    };
    expect(problemsOf(history, record)).toEqual([]);
  });
});

describe("a task", () => {
  test.each<[string, Partial<Record>, string]>([
    ["is nowhere", { tasks: ["t"] }, "task t is lost"],
    [
      "is in two places",
      { tasks: ["t"], places: [place("t", "ready"), place("t", "parked")] },
      "task t is in 2 places at once",
    ],
    ["is not on record", { places: [place("t", "ready")] }, "task t was accepted and is not on record"],
    [
      "is there and was never accepted",
      { tasks: ["t"], places: [place("t", "ready"), place("x", "ready")] },
      "task x was never accepted and is there",
    ],
  ])("that %s", (_, record, problem) => expect(problemsOf([at(0, enqueued("t"))], record)).toEqual([problem]));

  test("that is lost only for a while", () => {
    const record = { tasks: ["t"], places: [place("t", "ready")] };
    expect(problemsOf([at(0, enqueued("t")), at(1, looked())], record)).toEqual(["task t is lost"]);
  });
});

describe("an attempt", () => {
  const one = { claim: "1", task: "t", attempt: 1 };
  test.each<[string, Record["attempts"], number, string]>([
    ["with two outcomes", [one, { ...one, claim: "2" }], 2, "attempt 1 of task t has 2 outcomes"],
    ["without an outcome", [one], 3, "attempt 2 of task t has no outcome, and it is at 3 in ready"],
    ["that is over and yet to come", [one], 1, "attempt 1 of task t is over and yet to come"],
  ])("%s", (_, attempts, attempt, problem) => {
    const places = [place("t", "ready", { attempt })];
    expect(problemsOf([at(0, enqueued("t"))], { tasks: ["t"], places, attempts })).toEqual([problem]);
  });
});

describe("limits", () => {
  const both = [running("t", "1", "a"), running("u", "2", "a")];
  const history = (exclusive?: { key: string; limit: number }): History => [
    ...[at(0, joined("a")), at(0, enqueued("t", exclusive)), at(0, enqueued("u", exclusive))],
    ...[at(0, claimed("a", "1", "t")), at(0, claimed("a", "2", "u")), at(1, looked(...both))],
  ];
  const record = { tasks: ["t", "u"], places: both };

  test("of an exclusive key that are exceeded", () => {
    expect(problemsOf(history({ key: "k", limit: 1 }), record)).toEqual([
      "2 with the exclusive key k at once, and 1 are allowed",
    ]);
    expect(problemsOf(history({ key: "k", limit: 2 }), record)).toEqual([]);
  });

  test("of a queue that are exceeded", () => {
    expect(problemsOf(history(), { ...record, queueLimits: { default: 1 } })).toEqual([
      "2 of queue default at once, and 1 are allowed",
    ]);
  });
});

describe("a claim", () => {
  const begin = [at(0, joined("a")), at(0, joined("b")), at(0, enqueued("t")), at(1, claimed("a", "5", "t"))];
  const record = { tasks: ["t"], places: [place("t", "ready")] };

  test.each<[string, Happening[], string]>([
    ["beside another that is valid", [claimed("b", "6", "t")], "claims 5 and 6 on task t are valid at once"],
    [
      "whose id is not larger",
      [wrote("finish", "5", "accepted"), claimed("b", "4", "t")],
      "claim 4 came after claim 5",
    ],
    [
      "that ends another task than it is on",
      [wrote("finish", "5", "accepted", "u")],
      "claim 5 is stale, and its finish was accepted",
    ],
    [
      "that is stale and accepted",
      [wrote("finish", "5", "accepted"), wrote("guard", "5", "accepted")],
      "claim 5 is stale, and its guard was accepted",
    ],
    ["that holds and is refused", [wrote("start", "5", "refused")], "claim 5 holds, and its start was refused"],
    [
      "that was given back though it had begun",
      [wrote("release", "5", "accepted")],
      "claim 5 is stale, and its release was accepted",
    ],
    [
      "that repeats what was never written",
      [wrote("finish", "5", "repeat")],
      "claim 5: finish completed was taken for a repetition of what was never written",
    ],
    [
      "that is taken along by one who had lost it",
      [{ kind: "rehomed", before: "b", after: "c", claims: ["5"] }],
      "claim 5 was taken along from b, which had lost it",
    ],
    ["that is not there", [looked(place("t", "ready"))], "gone without a reason: claim 5 on t by a, running"],
    [
      "that nobody made",
      [wrote("finish", "5", "accepted"), looked(running("t", "7", "a"))],
      "unexpected: claim 7 on t by a, running",
    ],
  ])("%s", (_, happenings, problem) => {
    expect(problemsOf([...begin, ...happenings.map((happening) => at(2, happening))], record)).toEqual([problem]);
  });

  test("that is on record for another task", () => {
    const attempts = [{ claim: "5", task: "u", attempt: 1 }];
    expect(problemsOf(begin, { ...record, attempts })).toEqual(["claim 5 on task t is on record for task u"]);
  });

  test("whose refused outcome is not kept", () => {
    const history = [...begin, at(2, wrote("finish", "5", "accepted")), at(3, wrote("finish", "5", "refused"))];
    expect(problemsOf(history, record)).toEqual([
      "the outcome completed of claim 5 was refused and is not kept as late",
    ]);
    expect(problemsOf(history, { ...record, late: [{ claim: "5", outcome: "completed" }] })).toEqual([]);
  });
});

describe("a death", () => {
  const begin = [at(0, joined("a")), at(0, joined("b"))];
  const locked = [at(0, session("b", true)), at(0, heard("b"))];

  test("of one that was heard in time", () => {
    const history = [
      ...begin,
      ...listened(0, 100),
      at(20, session("b", true)),
      at(20, heard("b")),
      at(110, heard("a")),
      at(110, swept("a", dead("b"))),
    ];
    expect(problemsOf(history.sort((one, other) => one.from - other.from))).toEqual([
      "b was declared dead when it was silent for 90005 ms, which is allowed for 100000 ms",
    ]);
  });

  test("before the heart's promise", () => {
    const history = [
      ...[at(0, joined("a")), at(0, { ...joined("b"), promiseMs: 200_000 } as Happening), ...listened(0, 100)],
      ...[at(110, heard("a")), at(110, swept("a", dead("b")))],
    ];
    expect(problemsOf(history)).toEqual([
      "b was declared dead when it was silent for 110005 ms, which is allowed for 200000 ms",
    ]);
  });

  test.each<[string, number, Happening]>([
    ["in which nobody listened", 60, heard("a")],
    ["of another epoch", 60, { kind: "epoch" }],
  ])("by a silence %s", (_, second, happening) => {
    const isBetween = happening.kind === "epoch" ? listened(60, 100) : [];
    const history = [
      ...[...begin, ...listened(0, 50), at(second, happening), ...isBetween],
      ...[at(105, heard("a")), at(105, swept("a", dead("b")))],
    ];
    expect(problemsOf(history)).toEqual([expect.stringContaining("b was declared dead when it was silent for")]);
  });

  test("by a session that it has, that is of another epoch, or that was gone only just now", () => {
    const end = [at(50, heard("a")), at(50, swept("a", sessionLost("b")))];
    const upTo = [...begin, ...locked, ...listened(0, 40)];
    expect(problemsOf([...upTo, ...end])).toEqual(["b was declared dead by its session, which it had"]);
    expect(problemsOf([...upTo, at(41, { kind: "epoch" }), ...end])).toEqual([
      "b was declared dead by a session of another epoch",
    ]);
    expect(problemsOf([...upTo, at(41, session("b", false)), ...end])).toEqual([
      "b was declared dead when it was without its session for 9005 ms, which is allowed for 20000 ms",
    ]);
  });

  test("that does not come although it is time, by silence or by a session", () => {
    expect(problemsOf([...begin, ...listened(0, 120)])).toEqual(["b should have been declared dead by a"]);
    expect(problemsOf([...begin, ...locked, at(5, session("b", false)), ...listened(10, 40)])).toEqual([
      "b should have been declared dead by a",
    ]);
  });

  test("after which it is heard, or gets a claim", () => {
    const history = [...begin, at(1, { kind: "left", replica: "b" }), at(2, heard("b")), at(2, claimed("b", "1", "t"))];
    expect(problemsOf([at(0, enqueued("t")), ...history], { tasks: ["t"], places: [place("t", "ready")] })).toEqual([
      "a beat of b, which is offline, was heard",
      "b, which is offline, got a claim",
    ]);
  });

  test("that is not on record", () => {
    const history = [...begin, at(1, { kind: "left", replica: "b" })];
    expect(problemsOf(history, { replicas: [{ id: "b", status: "online", isHeartDead: false }] })).toEqual([
      "b is online on record, and should be offline",
    ]);
  });
});

describe("many deaths at once", () => {
  const fleet = ["a", "b", "c", "d"].map((replica) => at(0, joined(replica)));
  const end = (second: number, more: Partial<Swept>) => [at(second, heard("a")), at(second, swept("a", more))];
  const alerts = [{ kind: "mass-death", raisedAt: 110_000 }];
  /** Held since the second 110, up to this one. */
  const held = (to: number) =>
    listened(110, to).map((entry) => (entry.kind === "swept" ? { ...entry, heldSince: 110_001 } : entry));

  test("without a hold", () => {
    expect(problemsOf([...fleet, ...listened(0, 100), ...end(110, dead("b", "c", "d"))])).toEqual([
      "3 of 4 machines were declared dead at once, and recovery was not held for 300000 ms",
    ]);
  });

  test("are right after the hold, or when confirmed, and overdue beyond it", () => {
    const upTo = [...fleet, ...listened(0, 100), ...held(400)];
    const deaths = { ...dead("b", "c", "d"), heldSince: 110_001 };
    expect(problemsOf([...upTo, ...end(411, deaths)], { alerts })).toEqual([]);
    const confirmed = [...fleet, ...listened(0, 100), ...held(150), at(151, { kind: "confirmed" })];
    expect(problemsOf([...confirmed, ...end(155, deaths)], { alerts })).toEqual([]);
    expect(problemsOf([...upTo, ...end(411, { heldSince: 110_001 })], { alerts })).toEqual([
      ...["b", "c", "d"].map((replica) => `${replica} should have been declared dead by a`),
    ]);
  });

  test("held without an alert, or from a start that moves", () => {
    const upTo = [...fleet, ...listened(0, 100), ...held(150)];
    expect(problemsOf(upTo)).toEqual(["recovery was held 1 times, with 0 alerts"]);
    const moved = problemsOf([...upTo, ...end(160, { heldSince: 160_001 })], { alerts: [...alerts, ...alerts] });
    expect(moved).toEqual([expect.stringContaining("recovery is held since 160001")]);
  });
});

describe("a recovery", () => {
  const begin = [at(0, joined("a")), at(0, joined("b")), at(0, enqueued("t")), at(0, claimed("b", "1", "t"))];
  const record = { tasks: ["t"], places: [place("t", "ready")] };
  const recovered = [{ claim: "1", replica: "b", action: "released" }];

  test("from one who was alive", () => {
    const history = [...begin, ...listened(0, 20), at(30, heard("a")), at(30, swept("a", { recovered }))];
    expect(problemsOf(history, record)).toEqual([
      "claim 1 was recovered (released) from b, which was alive, 30005 ms silent",
    ]);
  });

  test("of a claim that its owner did not hold", () => {
    const gone = [at(1, { kind: "left", replica: "b" }), at(2, wrote("finish", "1", "accepted"))] as const;
    expect(problemsOf([...begin, ...gone, at(3, swept("a", { recovered }))], record)).toEqual([
      "claim 1 was recovered from b, which did not hold it",
    ]);
  });

  test("that does not come in the sweep after its owner has gone", () => {
    const history = [
      ...begin,
      at(1, { kind: "left", replica: "b" }),
      at(2, swept("a")),
      at(2, looked(running("t", "1", "b"))),
    ];
    expect(problemsOf(history as History, record)).toEqual(["task t stayed with b, which is not alive, after a sweep"]);
  });

  test("by one that did not listen", () => {
    const history = [...begin, at(1, swept("a", { isListening: false, ...dead("b") }))];
    expect(problemsOf(history, record)).toEqual(["a acted without having listened"]);
  });
});

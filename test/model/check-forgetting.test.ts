/** The checker, where the server forgets: what it then knows is what it knew, and those who were told something still know it. */
import { describe, expect, test } from "vitest";
import {
  at,
  claimed,
  dead,
  enqueued,
  epoch,
  forgot,
  heard,
  joined,
  listened,
  looked,
  place,
  problemsOf,
  remembered,
  running,
  swept,
  wrote,
} from "./happenings.ts";
import type { Happening } from "./record.ts";

test("a record is sound where what was done and forgotten is done again", () => {
  const history = [
    ...[at(0, joined("a")), at(0, enqueued("t")), at(1, claimed("a", "1", "t")), at(2, remembered)],
    ...[at(3, joined("b")), at(3, enqueued("u")), at(3, claimed("b", "2", "u"))],
    ...[at(4, wrote("finish", "1", "accepted")), at(5, forgot), at(5, epoch), at(5, looked(running("t", "1", "a")))],
    ...[at(6, heard("a")), at(6, { ...heard("b"), isHeard: false } as Happening)],
    ...[at(7, wrote("finish", "2", "refused", "u")), at(7, wrote("finish", "1", "accepted"))],
    at(8, looked(place("t", "ended"))),
  ];
  const record = {
    ...{ tasks: ["t"], places: [place("t", "ended")], attempts: [{ claim: "1", task: "t", attempt: 1 }] },
    ...{ late: [{ claim: "2", outcome: "completed" }], replicas: [{ id: "a", status: "online", isHeartDead: false }] },
  };
  expect(problemsOf(history, record)).toEqual([]);
});

describe("a task", () => {
  test("that was there at the point, and is not", () => {
    expect(problemsOf([at(0, enqueued("t")), at(1, remembered), at(2, forgot)], { tasks: ["t"] })).toEqual([
      "task t is lost",
    ]);
  });

  test("that was forgotten, and is there", () => {
    const record = { tasks: ["t"], places: [place("t", "ready")] };
    expect(problemsOf([at(0, remembered), at(1, enqueued("t")), at(2, forgot)], record)).toEqual([
      "task t was never accepted and is there",
    ]);
  });
});

describe("a claim", () => {
  const begin = [joined("a"), joined("b"), enqueued("t"), claimed("a", "5", "t")];
  const record = { tasks: ["t"], places: [place("t", "ready")] };

  test.each<[string, Happening[], string]>([
    [
      "whose id comes back",
      [wrote("finish", "5", "accepted"), remembered, claimed("b", "6", "t"), forgot, claimed("b", "6", "t")],
      "claim 6 came after claim 6",
    ],
    [
      "that was forgotten, and is accepted",
      [wrote("finish", "5", "accepted"), remembered, claimed("b", "6", "t"), forgot, wrote("finish", "6", "accepted")],
      "claim 6 is stale, and its finish was accepted",
    ],
    [
      "whose end was forgotten, and that is refused",
      [remembered, wrote("finish", "5", "accepted"), forgot, wrote("guard", "5", "refused")],
      "claim 5 holds, and its guard was refused",
    ],
    [
      "whose end was forgotten, and is taken for known",
      [remembered, wrote("finish", "5", "accepted"), forgot, wrote("finish", "5", "repeat")],
      "claim 5: finish completed was taken for a repetition of what was never written",
    ],
  ])("%s", (_, happenings, problem) => {
    expect(
      problemsOf(
        [...begin, ...happenings].map((happening) => at(0, happening)),
        record,
      ),
    ).toEqual([problem]);
  });
});

describe("a replica", () => {
  const begin = [at(0, joined("a")), at(0, joined("b"))];

  test("that was there at the point and is not, or is there and was not", () => {
    const since: Happening[] = [remembered, { kind: "left", replica: "b" }, joined("c"), forgot, heard("c")];
    const replicas = [
      { id: "b", status: "offline", isHeartDead: false },
      { id: "c", status: "online", isHeartDead: false },
    ];
    expect(problemsOf([...begin, ...since.map((happening) => at(1, happening))], { replicas })).toEqual([
      "a beat of c, which is unknown, was heard",
      "b is offline on record, and should be online",
      "c is online on record, and should be undefined",
    ]);
  });

  test("that is declared dead by a silence of the time before", () => {
    const history = [
      ...[...begin, ...listened(0, 50), at(55, remembered), at(56, forgot), at(56, epoch), ...listened(60, 100)],
      ...[at(105, heard("a")), at(105, swept("a", dead("b")))],
    ];
    expect(problemsOf(history)).toEqual([expect.stringContaining("b was declared dead when it was silent for")]);
  });
});

test("a hold that was forgotten, and whose alert is there", () => {
  const held = listened(110, 150).map((entry) => (entry.kind === "swept" ? { ...entry, heldSince: 110_001 } : entry));
  const fleet = ["a", "b", "c", "d"].map((replica) => at(0, joined(replica)));
  const history = [...fleet, ...listened(0, 100), at(105, remembered), ...held, at(151, forgot), at(151, epoch)];
  expect(problemsOf(history)).toEqual([]);
  const alerts = [{ kind: "mass-death", raisedAt: 110_000 }];
  expect(problemsOf(history, { alerts })).toEqual(["recovery was held 0 times, with 1 alerts"]);
});

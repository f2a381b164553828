/** What is on record of a death is read in full, and a reason that nobody understands is never taken for another. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { readDeathIn } from "../../src/recovery/death-in-error.ts";
import { type Cause, probableCause } from "../../src/recovery/probable-cause.ts";
import { blamedFor, causeOf, shortCauseOf } from "../../src/recovery/recovery-action.ts";
import { unchargedWords } from "../../src/recovery/uncharged-words.ts";
import { type Silence, verdictOn } from "../../src/recovery/verdict.ts";
import {
  DEATH_REASONS,
  type DeathReason,
  type DeathRecord,
  readDeath,
  VERDICT_REASONS,
  type VerdictReason,
} from "../../src/task/death.ts";
import type { ClaimId, TaskId } from "../../src/task/ids.ts";

const WHOLE: Required<DeathRecord> = {
  because: "loop-blocked",
  machineId: "machine-1",
  hostname: "host-1",
  silentForMs: 1_500,
  vitals: { rssBytes: 1 },
  wasDraining: true,
  isCharged: false,
  exitCode: 3,
  signal: "SIGKILL",
  group: { used: 90, limit: 100, kills: 1 },
  sharedWith: ["0b8f5f0e-3f0b-4c39-9c5c-0a4f2f6f3f11"],
  exitCall: { taskId: "0b8f5f0e-3f0b-4c39-9c5c-0a4f2f6f3f11" as TaskId, name: "bomb", exitCode: 1 },
  stack: "at busy (file.js:1:1)",
  blockedForMs: 61_000,
  timedOut: [{ claimId: "7" as ClaimId, taskId: "0b8f5f0e-3f0b-4c39-9c5c-0a4f2f6f3f11" as TaskId, name: "spin" }],
};
const because = "unknown";
const others = (Object.keys(WHOLE) as (keyof DeathRecord)[]).filter((field) => field !== "because");

describe("a record of a death", () => {
  test.each(others)("has its %s read as it was written", (field) => {
    expect(readDeath({ [field]: WHOLE[field] })).toEqual({ because, [field]: WHOLE[field] });
  });

  test("is read with all of them together, and nothing else", () => {
    expect(readDeath({ ...WHOLE, more: 1 })).toEqual(WHOLE);
  });

  test.each(others.filter((field) => field !== "vitals"))("is read without a %s of another kind", (field) => {
    expect(readDeath({ [field]: ["odd"] })).toEqual({ because });
  });

  test.each([{ used: 1 }, { used: 1, limit: 0, kills: 0 }, { used: "1", limit: 2, kills: 0 }, null])(
    "is read without a cgroup of which not all is known: %j",
    (group) => {
      expect(readDeath({ group })).toEqual({ because });
    },
  );

  test.each([undefined, null, 7, "of-a-newer-version", "toString"])(
    "with the reason %j is of an unknown one",
    (odd) => {
      expect(readDeath({ because: odd, exitCode: 3 })).toEqual({ because, exitCode: 3 });
      expect(readDeath(odd)).toEqual({ because });
    },
  );
});

describe("the error of an attempt", () => {
  test("has the death in it read in full", () => {
    const death = {
      because: "exited",
      exitCode: 3,
      sentence: "It ended.",
      inRunner: 2,
      before: 1,
      inWorker: 3,
      withinLimit: 4,
    };
    const runner = { id: "r", kind: "thread", pid: 7, what: "its runner (a thread) exited" };
    expect(readDeathIn({ code: "WORKER_CRASHED", message: "m", ...death, runner })).toEqual({
      ...death,
      runner: { kind: "thread", what: runner.what },
    });
  });

  test.each([undefined, null, "text", { because: "by-hand", inRunner: "many", runner: 7, sentence: {} }])(
    "that is odd (%j) has no more of it than can be understood",
    (error) => {
      expect(readDeathIn(error)).toEqual({ because });
      expect(unchargedWords(error)).toBeUndefined();
    },
  );
});

interface Told {
  /** What a post-mortem concludes where nothing else is known. */
  readonly cause: Cause;
  readonly isBlameless: boolean;
}

/** The compiler asks for a new reason. */
const TOLD: { readonly [Reason in DeathReason]: Told } = {
  silent: { cause: "vanished", isBlameless: false },
  "session-lost": { cause: "process-ended", isBlameless: false },
  offline: { cause: "left", isBlameless: true },
  missing: { cause: "unknown", isBlameless: false },
  "runner-ended": { cause: "unknown", isBlameless: false },
  "runner-silent": { cause: "fell-silent", isBlameless: false },
  "stopped-by-task": { cause: "unknown", isBlameless: false },
  exited: { cause: "unknown", isBlameless: false },
  "loop-blocked": { cause: "loop-blocked", isBlameless: false },
  unknown: { cause: "unknown", isBlameless: false },
};

describe("a death because of", () => {
  const reasons = Object.entries(TOLD) as [DeathReason, Told][];

  test.each(reasons)("%s is concluded from, blamed and worded on purpose", (reason, told) => {
    expect(probableCause({ kind: "replica", because: reason }).cause).toBe(told.cause);
    expect(blamedFor({ replicaId: "replica-1", because: reason }, 0)).toBe(told.isBlameless ? "nobody" : "all");
    expect(causeOf({ because: reason })).toBe(DEATH_REASONS[reason].words);
    expect(shortCauseOf({ because: reason })).toBe(DEATH_REASONS[reason].short);
  });

  test("each reason is in docs/recovery.md", () => {
    const [, table = ""] =
      /\| `because` \|[^\n]*\n((?:\|[^\n]*\n)+)/.exec(readFileSync("docs/recovery.md", "utf8")) ?? [];
    const documented = table
      .split("\n")
      .flatMap((row) => [...(row.split("|")[1] ?? "").matchAll(/`([^`]+)`/g)].map(([, reason]) => reason));
    expect(documented.sort()).toEqual(Object.keys(DEATH_REASONS).sort());
  });

  test("each reason is told in words of its own", () => {
    const words = Object.values(DEATH_REASONS).flatMap((each) => [each.words]);
    expect(new Set(words).size).toBe(words.length);
    expect(new Set(Object.values(DEATH_REASONS).map((each) => each.short)).size).toBe(words.length);
  });

  test.each([
    [{ signal: "SIGKILL" }, "its process was ended by SIGKILL"],
    [{ exitCode: 3 }, "its process exited with code 3"],
  ])("an exit is told by what was seen: %j", (how, words) => {
    expect(causeOf({ because: "exited", ...how })).toBe(words);
    expect(shortCauseOf({ because: "exited", ...how })).toBe(words);
  });

  test("a blocked loop is told with how long it was", () => {
    const death = { because: "loop-blocked", blockedForMs: 61_000 } as const;
    expect(causeOf(death)).toBe("it was ended because its event loop was blocked for 1m 1s");
    expect(shortCauseOf(death)).toBe("ended, its loop was blocked for 1m 1s");
  });
});

/** What shows just beyond its limit that somebody is dead for this reason, and for no other. The compiler asks for a new one. */
const SHOWN: { readonly [Reason in VerdictReason]: (beyondMs: number) => Silence } = {
  "session-lost": (beyondMs) => ({ silentForMs: 0, sessionFreeForMs: 1_000 + beyondMs }),
  silent: (beyondMs) => ({ silentForMs: 15_000 + beyondMs }),
};

test.each(VERDICT_REASONS)("a verdict because of %s is given beyond its limit, and not at it", (reason) => {
  const limits = { staleFromMs: undefined, deadAfterMs: 15_000, sessionGoneAfterMs: 1_000 };
  expect(verdictOn(SHOWN[reason](0), limits).kind).toBe("fresh");
  expect(verdictOn(SHOWN[reason](1), limits)).toMatchObject({ kind: "dead", because: reason });
});

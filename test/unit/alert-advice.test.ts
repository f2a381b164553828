/** What to do about an alert is data, made from what it carries, however odd that is. */
import { describe, expect, test } from "vitest";
import { adviceOnAlert } from "../../src/alert-advice.ts";
import { ALERT_KINDS, type AlertKind } from "../../src/alert-kinds.ts";
import { lineOf } from "../../src/cli/advice-line.ts";

const id = "0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11";

interface Sample {
  readonly subject?: string;
  readonly details?: unknown;
  /** The lines to type, and what is said where there is none. */
  readonly advised: readonly string[];
}

/** The compiler asks for a new kind. */
const SAMPLES: { readonly [Kind in AlertKind]: Sample } = {
  "mass-death": {
    details: { source: "hearts", counted: "machines" },
    advised: ["everbeat replicas", "everbeat recover --confirm hearts"],
  },
  "sweeps-stopped": { advised: ["everbeat doctor"] },
  "claims-failing": { advised: [] },
  "crash-loop": { advised: ["everbeat post-mortems"] },
  "queue-not-usable": {
    ...{ subject: "mail", details: { reason: "its settings cannot be used" } },
    advised: ["everbeat queues set mail --rate-limit none", "everbeat queues resume mail"],
  },
  "runners-suspended": { advised: [] },
  "queue-locked": { advised: [] },
  "not-claimable": { details: { task: id, queue: "q", reason: "r" }, advised: [`everbeat tasks retry ${id}`] },
  "outcome-stuck": { subject: `task ${id}`, advised: [`everbeat explain ${id}`] },
  "task-stalled": { subject: id, advised: [`everbeat explain ${id}`, `everbeat tasks cancel ${id}`] },
  "loop-blocked": {
    subject: id.replace("0198", "0199"),
    details: { blockedLoop: 1, stack: null, tasks: [{ claimId: "7", taskId: id, name: "resize" }] },
    advised: [`everbeat explain ${id}`, `everbeat post-mortem ${id.replace("0198", "0199")}`],
  },
  "child-still": { advised: [] },
  "log-dropped": { advised: [] },
  "roll-stopped": { advised: [] },
  "service-stuck": { advised: ["Start that process again, so that it can run the service."] },
  "sweep-passed-by": { advised: [] },
  "upkeep-passed-by": { advised: [] },
};

describe("the advice on an alert", () => {
  test.each(Object.entries(SAMPLES))("%s leads to what helps", (kind, { subject = "s", details = null, advised }) => {
    const told = adviceOnAlert({ kind, subject, details }).map((each) => lineOf(each, {}) ?? each.sentence);
    expect(told).toEqual(advised);
  });

  test("of a mass death is about its own source", () => {
    const adviceOn = (details: unknown) =>
      adviceOnAlert({ kind: "mass-death", subject: "s", details }).map(({ sentence, input }) => [sentence, input]);
    expect(adviceOn({ source: "imports", counted: "owners" })).toEqual([
      ["Confirm it, if those owners are dead indeed.", { source: "imports" }],
    ]);
    expect(adviceOn(null)).toContainEqual(["Confirm it, if those who fell silent are dead indeed.", {}]);
  });

  test.each([null, 7, "text", [], { task: 7, tasks: "odd" }, { tasks: [null] }, { task: "x'; drop" }])(
    "whose details are odd (%j) is what can be said without them",
    (details) => {
      for (const kind of Object.keys(ALERT_KINDS)) {
        const lines = adviceOnAlert({ kind, subject: "odd", details }).flatMap((each) => lineOf(each, {}) ?? []);
        expect(lines.join("\n")).not.toMatch(/undefined|null|drop/);
      }
    },
  );

  test("of a kind that only a newer version knows is none", () => {
    expect(adviceOnAlert({ kind: "of-tomorrow", subject: "s", details: null })).toEqual([]);
  });
});

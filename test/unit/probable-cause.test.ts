import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isNearItsLimit, memoryOutlook } from "../../src/recovery/memory-outlook.ts";
import { probableCause } from "../../src/recovery/probable-cause.ts";
import { DEATHS } from "../support/deaths.ts";

describe("the probable cause of", () => {
  test.each(DEATHS)("%s is %s", (_what, cause, evidence) => {
    const told = probableCause(evidence);
    expect(told.cause).toBe(cause);
    expect(told.sentence).toMatch(/^[A-Z].*\.$/);
    expect([told.sentence, ...told.evidence].join("\n")).not.toMatch(/undefined|null|NaN/);
  });

  test("a death with a signal and an exit code is told by the signal", () => {
    const told = probableCause({ kind: "runner", because: "exited", signal: "SIGSEGV", exitCode: null });
    expect(told).toEqual({
      cause: "native-crash",
      sentence:
        "The process crashed in native code (SIGSEGV): an addon, a library or the runtime itself, not JavaScript.",
      evidence: ["its process was ended by SIGSEGV"],
    });
  });

  test("an exit code of 1 without an error on standard error is that of two causes", () => {
    const told = (evidence: object) => probableCause({ kind: "runner", because: "exited", ...evidence }).sentence;
    expect(told({ exitCode: 1 })).toBe(
      "The process ended with exit code 1: an error that nobody caught, or process.exit(1).",
    );
    expect(told({ exitCode: 1, isThread: true, stderr: ["work begun"] })).toBe(
      "The thread ended with exit code 1: an error that nobody caught, or process.exit(1).",
    );
    expect(told({ exitCode: 1, stderr: ["RangeError: too far"] })).toBe(
      "An error that nobody caught ended the process: RangeError: too far.",
    );
  });

  test("a kill is told without a guess at who did it: it may have been the task", () => {
    const { sentence } = probableCause({ kind: "runner", because: "exited", signal: "SIGKILL" });
    expect(sentence).toBe(
      "The process was killed (SIGKILL): by an operator, a supervisor, the kernel or its own code. Nobody saw which.",
    );
  });

  test("anything at all is something, and a sentence", () => {
    const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });
    const evidence = fc.record({
      kind: fc.constantFrom("replica" as const, "runner" as const),
      because: fc.constantFrom(
        ...(["silent", "session-lost", "exited", "loop-blocked", "offline", "missing"] as const),
      ),
      exitCode: maybe(fc.integer({ min: 0, max: 255 })),
      signal: maybe(fc.constantFrom("SIGKILL", "SIGSEGV", "SIGTERM", "SIGABRT", "SIGHUP")),
      wasDraining: maybe(fc.boolean()),
      holdsSession: maybe(fc.boolean()),
      silentForMs: maybe(fc.nat()),
      stderr: maybe(fc.array(fc.string())),
      memory: maybe(
        fc.record({ rss: fc.nat(), limit: fc.integer({ min: 1 }), agoMs: fc.nat(), growthPerSecond: fc.nat() }),
      ),
      neighbours: maybe(fc.record({ there: fc.nat(9), gone: fc.nat(9) })),
    });
    fc.assert(
      fc.property(evidence, (given) => {
        const { sentence, evidence: lines } = probableCause(given);
        expect(sentence).toMatch(/^[A-Z]/);
        expect(lines.length).toBeGreaterThan(0);
      }),
    );
  });
});

describe("the outlook of memory", () => {
  const at = (agoMs: number, rss: number) => ({ agoMs, rss, limit: 1_000 });

  test("is as of the last beat, with the growth since the one before", () => {
    expect(memoryOutlook([at(17_000, 100), at(2_000, 400), at(32_000, 100)])).toEqual({
      ...{ rss: 400, limit: 1_000, agoMs: 2_000, growthPerSecond: 20 },
    });
    expect(memoryOutlook([])).toBeUndefined();
  });

  test.each([
    ["at nine tenths", [at(1_000, 900)], true],
    ["below, and steady", [at(1_000, 800), at(16_000, 800)], false],
    ["at half, and bound to be full by now", [at(2_000, 600), at(4_000, 200)], true],
    ["at half, and growing slowly", [at(2_000, 600), at(17_000, 500)], false],
    ["shrinking", [at(2_000, 600), at(4_000, 890)], false],
  ])("%s", (_what, samples, isNear) => expect(isNearItsLimit(memoryOutlook(samples))).toBe(isNear));
});

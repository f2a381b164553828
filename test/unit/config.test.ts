import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { checkOptions, isDuration, isInteger, isOneOf, isText } from "../../src/config/checks.ts";
import { durationMs, formatDuration } from "../../src/config/duration.ts";
import { nearestKey } from "../../src/config/nearest-key.ts";
import { checkOpen } from "../../src/config/open-options.ts";
import { InvalidOptionsError, Problems } from "../../src/config/problems.ts";

describe("durations", () => {
  test.each([
    [1500, 1500],
    ["250ms", 250],
    ["30s", 30_000],
    ["1.5m", 90_000],
    ["2h", 7_200_000],
    ["7d", 604_800_000],
  ])("%s is %d ms", (written, ms) => expect(durationMs(written)).toBe(ms));

  test.each(["", "s", "10", "10 parsecs", "-5s", Number.NaN, Number.POSITIVE_INFINITY, null, {}])(
    "%s is none",
    (written) => expect(durationMs(written)).toBeUndefined(),
  );

  test("are shown as people say them", () => {
    expect(formatDuration(250)).toBe("250ms");
    expect(formatDuration(1_500)).toBe("1.5s");
    expect(formatDuration(90_000)).toBe("1m 30s");
    expect(formatDuration(90_061_000)).toBe("1d 1h");
  });
});

describe("the nearest key", () => {
  test("is found through a slip of the finger", () => {
    expect(nearestKey("priorty", ["priority", "queue", "delay"])).toBe("priority");
    expect(nearestKey("UniqueKey", ["uniqueKey", "exclusiveKey"])).toBe("uniqueKey");
  });

  test("is not guessed at where nothing is near", () => {
    expect(nearestKey("colour", ["priority", "queue"])).toBeUndefined();
  });

  test("of a known key is that key", () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.string({ minLength: 1 }), { minLength: 1 }),
        (keys) => nearestKey(keys[0] ?? "", keys)?.toLowerCase() === keys[0]?.toLowerCase(),
      ),
    );
  });
});

describe("options", () => {
  const shape = {
    concurrency: isInteger({ min: 1, max: 10 }),
    grace: isDuration({ minMs: 0, maxMs: 1_000 }),
    mode: isOneOf(["fast", "slow"]),
    name: isText({ max: 5 }),
  };
  const check = (options: unknown) => {
    const problems = new Problems();
    return { checked: checkOptions(options, shape, { path: "", problems }), problems: problems.list };
  };

  test("that are right come out as they are meant", () => {
    expect(check({ concurrency: 3, grace: "1s", mode: "fast", name: "abc", unused: undefined }).checked).toEqual({
      concurrency: 3,
      grace: 1_000,
      mode: "fast",
      name: "abc",
    });
  });

  test("are all complained about at once, with the nearest key", () => {
    const { problems } = check({ concurency: 3, grace: "2s", mode: "fst", name: "a\0b" });
    expect(problems).toHaveLength(4);
    expect(problems[0]).toContain('did you mean "concurrency"?');
    expect(problems[1]).toContain("a duration up to 1s");
    expect(problems[2]).toContain('did you mean "fast"?');
    expect(problems[3]).toContain("name");
  });

  test.each([[[]], ["text"], [7], [null]])("must be an object, not %j", (given) =>
    expect(check(given).problems).toHaveLength(1),
  );

  test("inherited keys are not options", () => {
    expect(check({ toString: 1 }).problems).toHaveLength(1);
  });

  test("of Everbeat.open say everything that is wrong with them", () => {
    try {
      checkOpen({ databse: "x", schema: "Has Spaces", poolSize: 0, log: "loud" } as never);
      expect.unreachable();
    } catch (error) {
      expect(error).toBeInstanceOf(InvalidOptionsError);
      expect((error as InvalidOptionsError).problems).toHaveLength(4);
      expect((error as Error).message).toContain('did you mean "database"?');
    }
  });
});

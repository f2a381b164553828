import { describe, expect, test } from "vitest";
import { judgeFlapping } from "../../src/doctor/check-flapping.ts";
import { flappingWords, reliabilityOf } from "../../src/recovery/reliability.ts";
import type { MachineUnrest } from "../../src/sql/reliability.ts";

const HOUR = 3_600_000;
const calm: MachineUnrest = {
  ...{ machineId: "m", hostname: "host-7", observedForMs: 48 * HOUR, upForMs: 12 * HOUR },
  ...{ deaths: 0, silences: 0, deathsLately: 0, silencesLately: 0 },
};

describe("the reliability of a machine", () => {
  test("that never lost a process has no time between deaths", () => {
    expect(reliabilityOf(calm)).toMatchObject({
      ...{ deaths: 0, deathsPerDay: 0, meanMsBetweenDeaths: undefined, isFlapping: false, upForMs: 12 * HOUR },
    });
  });

  test("is how often its processes died in the time in which it was observed", () => {
    expect(reliabilityOf({ ...calm, deaths: 4 })).toMatchObject({ deathsPerDay: 2, meanMsBetweenDeaths: 12 * HOUR });
  });

  test("that was first seen a minute ago is not reckoned up to a day", () => {
    expect(reliabilityOf({ ...calm, observedForMs: 60_000, deaths: 1 }).deathsPerDay).toBe(24);
  });

  test.each([
    [2, 0, false],
    [1, 1, false],
    [3, 0, true],
    [1, 2, true],
  ])("with %d deaths and %d silences in an hour flaps: %s", (deathsLately, silencesLately, isFlapping) => {
    expect(reliabilityOf({ ...calm, deathsLately, silencesLately }).isFlapping).toBe(isFlapping);
  });
});

describe("the doctor", () => {
  test("warns of machines that flap, with their rate", () => {
    const machine = reliabilityOf({ ...calm, deaths: 9, deathsLately: 4, silencesLately: 1 });
    expect(flappingWords(machine)).toBe("4 deaths and 1 silence in the last hour");
    expect(judgeFlapping([machine, reliabilityOf(calm)])).toMatchObject({
      mark: "warning",
      found: "host-7: 4 deaths and 1 silence in the last hour",
    });
  });

  test("is content with a death now and then", () => {
    expect(judgeFlapping([reliabilityOf({ ...calm, deaths: 9, deathsLately: 1 })])).toMatchObject({
      mark: "good",
      found: expect.stringContaining("one worker died in the last hour"),
    });
    expect(judgeFlapping([])).toMatchObject({ mark: "skipped" });
  });
});

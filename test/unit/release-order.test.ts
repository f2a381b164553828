import { expect, test } from "vitest";
import { compareReleases } from "../../src/database/release-order.ts";

/** From the oldest to the newest. */
const RELEASES = [
  ...["0.1.0-alpha", "0.1.0-alpha.1", "0.1.0-alpha.beta", "0.1.0-beta", "0.1.0-beta.2", "0.1.0-beta.11", "0.1.0-rc.1"],
  ...["0.1.0", "0.1.1", "0.2.0", "0.10.0", "1.0.0-rc-2.1", "1.0.0", "2.0.0", "10.0.0"],
];

test("releases are in the order in which they are published", () => {
  for (const [place, one] of RELEASES.entries()) {
    for (const [otherPlace, other] of RELEASES.entries()) {
      expect(Math.sign(compareReleases(one, other)), `${one} and ${other}`).toBe(Math.sign(place - otherPlace));
    }
  }
});

test("what is said of the build makes no difference", () => {
  expect(compareReleases("1.2.3+one", "1.2.3+two")).toBe(0);
  expect(compareReleases("1.2.3+one", "1.2.4")).toBeLessThan(0);
});

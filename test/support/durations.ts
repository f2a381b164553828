/** Durations as text, as people write them and as they should not. */
import fc from "fast-check";

export const written = fc.oneof(
  fc
    .tuple(fc.double({ min: 0, max: 1e6, noNaN: true }), fc.constantFrom("ms", "s", "m", "h", "d"))
    .map(([number, unit]) => `${number.toFixed(4)}${unit}`),
  fc.bigInt({ min: 0n, max: 10n ** 400n }).map((digits) => `${digits}s`),
  fc.nat().map(String),
  fc.constantFrom("1.005s", "0.4ms", "1.0005s", "100.5ms", " 5 m", "5 m\n"),
  // None of these is one.
  fc.constantFrom(
    "1e3s",
    "5 minutes",
    "-5s",
    "+5s",
    ".5s",
    "5.s",
    "0x10ms",
    "1_000ms",
    "5S",
    "٣s",
    "5\u00a0s",
    "5\u3000s",
  ),
  fc.constantFrom("", " ", "s", "1s2s", "1 5s", "NaN", "Infinity", "Infinitys", "null", "∞"),
  fc.string(),
);

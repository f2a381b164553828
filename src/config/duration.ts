/** Durations as people write them: milliseconds, or "250ms", "30s", "5m", "2h", "7d". */
export type Duration = number | `${number}${"ms" | "s" | "m" | "h" | "d"}`;

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

const YEAR_MS = 365 * 86_400_000;

/** Ten years: no duration is longer. */
export const MAX_DURATION_MS = 10 * YEAR_MS;

/**
 * The duration in whole milliseconds, or undefined where it is not one. Rounded here, for everybody: the database counts in whole
 * milliseconds and refuses a statement with any other number. `duration_ms` does the same in SQL.
 */
export function durationMs(value: unknown): number | undefined {
  if (typeof value === "string") return readDuration(value);
  return typeof value === "number" && value >= 0 && value <= MAX_DURATION_MS ? Math.round(value) : undefined;
}

/** Reckoned in whole numbers, as exactly as in SQL: 1.0005 s would be 1,000.4999999999999 ms, and 0.49999999999999999 ms would be half of one. */
function readDuration(text: string): number | undefined {
  // Spaces and digits of ASCII only: what else is one depends on the database's locale in SQL.
  const match = /^[ \t\r\n]*(\d{1,255})(?:\.(\d{1,255}))?[ \t\r\n]*(ms|s|m|h|d)[ \t\r\n]*$/.exec(text);
  if (!match) return undefined;
  const [, whole = "", fraction = "", unit] = match;
  const one = 10n ** BigInt(fraction.length);
  const ms = BigInt(whole + fraction) * BigInt(UNIT_MS[unit as keyof typeof UNIT_MS]);
  if (ms > BigInt(MAX_DURATION_MS) * one) return undefined;
  return Number((2n * ms + one) / (2n * one));
}

/** 90_000 → "1m 30s", for people. */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)}ms`;
  if (ms < 60_000) return `${Number((ms / 1_000).toFixed(1))}s`;
  const parts: string[] = [];
  let rest = Math.round(ms / 1_000);
  for (const [unit, seconds] of [
    ["d", 86_400],
    ["h", 3_600],
    ["m", 60],
    ["s", 1],
  ] as const) {
    const count = Math.floor(rest / seconds);
    rest -= count * seconds;
    if (count > 0) parts.push(`${count}${unit}`);
  }
  return parts.slice(0, 2).join(" ");
}

/** 1_005 → "1.005s": a duration that somebody has set, with nothing rounded away. */
export function exactDuration(ms: number): string {
  if (ms < 1_000) return `${ms}ms`;
  const minutes = Math.floor(ms / 60_000) * 60_000;
  const parts: string[] = [];
  let rest = minutes;
  for (const unit of ["d", "h", "m"] as const) {
    const count = Math.floor(rest / UNIT_MS[unit]);
    rest -= count * UNIT_MS[unit];
    if (count > 0) parts.push(`${count}${unit}`);
  }
  if (ms > minutes) parts.push(`${(ms - minutes) / 1_000}s`);
  return parts.join(" ");
}

/** The bound of a setting in words: "10 years", "1 year", "1d". */
export function longDuration(ms: number): string {
  const years = ms / YEAR_MS;
  if (!Number.isInteger(years) || years === 0) return exactDuration(ms);
  return years === 1 ? "1 year" : `${years} years`;
}

/** From when on a silence means something is said in src/recovery/limits.ts, and nowhere else: neither in TypeScript nor in SQL. */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import * as limits from "../../src/recovery/limits.ts";

const root = new URL("../../", import.meta.url);
const files = ["src", "migrations/routines"].flatMap((folder) =>
  readdirSync(new URL(folder, root), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.(ts|sql)$/.test(file))
    .map((file) => ({ path: `${folder}/${file}`, text: readFileSync(new URL(`${folder}/${file}`, root), "utf8") })),
);

/** Where others are judged. What a process decides about itself and its own runners (heart, runner) it must be able to say beforehand. */
const JUDGING = /^src\/(recovery|doctor|cli|operations|upkeep|background|supervisor)\//;
const LIMITS = "src/recovery/limits.ts";
/** The settings and promises by which silence is judged. */
const THRESHOLD =
  "(?:claimedDeadAfterMs|runningDeadAfterMs|staleAfterMs|sessionGraceMs|promiseMs|sessionPromiseMs|stalledAfterMs|intervalMs)";
/** What is measured, and judged by them. */
const SIGN = "(?:silentForMs|sessionFreeForMs|quietForMs|sweptAgoMs|blockedForMs)";

/** Reckoned with a threshold, or compared with a number or a constant that is none of limits.ts. */
function thresholdsInCode(text: string): string[] {
  const code = text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
  const reckoned = [
    ...code.matchAll(new RegExp(`(?:[<>]=?|[-+*/]) \\(?(?:\\w+\\.)*${THRESHOLD}\\b(?! =>)`, "g")),
    ...code.matchAll(new RegExp(`\\b${THRESHOLD}(?: \\?\\? \\w+)?\\)? (?:[<>]=?|[-+*/]) `, "g")),
    ...code.matchAll(/\bWARN_AFTER_BEATS\b/g),
  ].map(([found]) => found);
  const compared = [
    ...code.matchAll(new RegExp(`\\b${SIGN}(?:"\\])?(?: \\?\\? 0\\))? [<>]=? (\\d[\\d_]*|[A-Z][A-Z_]+)\\b`, "g")),
  ]
    .filter(([, by = ""]) => by !== "0" && !(by in limits))
    .map(([found]) => found);
  return [...reckoned, ...compared];
}

/** A silence that is compared with anything but a parameter, or a parameter times what a heart says of itself. */
function thresholdsInSql(text: string): string[] {
  const code = text.replace(/--.*$/gm, "");
  return [...code.matchAll(/\b(?:silent_ms|quiet_ms|session_free_ms)\(/g)].flatMap((call) => {
    let [at, depth] = [call.index + call[0].length, 1];
    while (depth > 0 && at < code.length) depth += { "(": 1, ")": -1 }[code[at++] as string] ?? 0;
    const [, by] = /^\s*[<>]=?\s*([^\s,)]+(?:\s*\*\s*[^\s,)]+)?)/.exec(code.slice(at)) ?? [];
    return by === undefined ||
      /^(p_\w+|v_from_ms|w\.from_ms|\$\d+(::\w+)?)(\[[\w(]+|;|\s*\*\s*\w+\.interval_ms)?$/.test(by)
      ? []
      : [`${call[0]}…) ${by}`];
  });
}

/** With the reason. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  "src/sql/alert-causes.ts":
    "whether the cause of an alert stands is no verdict: it is over as soon as the definition that is on record allows this quiet",
};

function found(all: typeof files): string[] {
  return all
    .filter(({ path }) => path !== LIMITS && !(path in ELSEWHERE))
    .flatMap(({ path, text }) => {
      const inCode = JUDGING.test(path) || path.startsWith("src/sql/") ? thresholdsInCode(text) : [];
      const inSql = path.endsWith(".sql") || path.startsWith("src/sql/") ? thresholdsInSql(text) : [];
      return [...inCode, ...inSql].map((what) => `${path}: ${what}`);
    });
}

describe("a threshold of silence", () => {
  test("is in limits.ts and nowhere else", () => {
    expect(found(files)).toEqual([]);
  });

  test("is noticed by this rule where it is", () => {
    const textOf = (path: string) => files.find((file) => file.path === path)?.text ?? "";
    expect(thresholdsInCode(textOf(LIMITS)).length).toBeGreaterThan(5);
    for (const path of Object.keys(ELSEWHERE)) expect(thresholdsInSql(textOf(path))).not.toEqual([]);
  });

  test.each([
    "const isGone = (silentForMs ?? 0) > 10_000;",
    "return blockedForMs >= BLOCKED_MS;",
    'return (vitals?.["blockedForMs"] ?? 0) >= BLOCKED_MS;',
    "if (owner.silentForMs > Math.max(afterMs, owner.promiseMs ?? 0) && silentForMs - 1.5 * owner.intervalMs > 0) return;",
    "const knownWithinMs = settings.sessionGraceMs + 2.5 * settings.checkMs;",
    "const limitMs = Math.max(afterMs, 3 * (intervalMs ?? 0));",
    "[WARN_AFTER_BEATS]",
  ])("is noticed in code: %s", (text) => {
    expect(thresholdsInCode(text)).not.toEqual([]);
  });

  test.each([
    "where silent_ms(h, r.started_at, l) < 3 * h.interval_ms",
    "and quiet_ms(p.changed_at, u.started_at, l.hearing_since, clock_timestamp()) > d.stalled_after_ms",
    "if session_free_ms(h, l) >= 1000 then",
    "where silent_ms(h, r.started_at, l) > h.promise_ms",
  ])("is noticed in SQL: %s", (text) => {
    expect(thresholdsInSql(text)).not.toEqual([]);
  });

  test("is none where a parameter is compared, or two silences are", () => {
    const sql = "silent_ms(h, s, l) <= p_min_ms and silent_ms(h, s, l) < p_missed_beats * h.interval_ms";
    expect(thresholdsInSql(`select ${sql} or quiet_ms(a, b, c, d) >= v_from_ms`)).toEqual([]);
    expect(thresholdsInCode("(one.silentForMs ?? 0) > (most?.silentForMs ?? 0)")).toEqual([]);
    expect(thresholdsInCode("(vitals.blockedForMs ?? 0) >= BLOCKED_FROM_MS")).toEqual([]);
  });
});

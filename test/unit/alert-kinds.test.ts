/** The table of alert kinds: what SQL names is in it, and the compiler asks for what each kind carries. */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ALERT_KINDS, type AlertKind, isAlertKind, type NewAlert, severityOf } from "../../src/alert-kinds.ts";

const root = new URL("../../", import.meta.url);
const sources = ["migrations/routines", "src"].flatMap((folder) =>
  readdirSync(new URL(folder, root), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.(sql|ts)$/.test(file))
    .map((file) => ({ file: `${folder}/${file}`, text: readFileSync(new URL(`${folder}/${file}`, root), "utf8") })),
);

/** The kinds that a source raises, resolves or looks for. */
function kindsNamed(text: string): string[] {
  const named = [
    ...text.matchAll(/\b(?:raise_alert|note_alert|resolve_alert)\('([^']+)'/g),
    ...(/\balert\b/.test(text) ? text.matchAll(/\bkind = '([^']+)'/g) : []),
  ];
  return named.map(([, kind = ""]) => kind);
}

test("every kind that SQL names is one of the table", () => {
  const unknown = sources.flatMap(({ file, text }) =>
    kindsNamed(text)
      .filter((kind) => !isAlertKind(kind))
      .map((kind) => `${file}: ${kind}`),
  );
  expect(unknown).toEqual([]);
  expect(new Set(sources.flatMap(({ text }) => kindsNamed(text))).size).toBeGreaterThan(5);
});

test("a kind that is not of the table is noticed by this rule", () => {
  expect(kindsNamed("perform raise_alert('never-heard-of', p_queue, '');")).toEqual(["never-heard-of"]);
  expect(kindsNamed("update alert set x = 1 where kind = 'nor-of-this'")).toEqual(["nor-of-this"]);
});

test("no other place writes a row of the table `alert`", () => {
  const writing = sources.filter(({ text }) => /insert\s+into\s+(?:\S+\.)?alert\b/i.test(text)).map(({ file }) => file);
  expect(writing).toEqual(["migrations/routines/alerts/note_alert.sql"]);
});

test("alerts are resolved by one statement, which waits for no lock", () => {
  const resolving = sources.filter(({ text }) =>
    /update\s+\S*\balert\b(?:\s+\w+)?\s+set\b[^;`]*\bresolved_at\s*=/i.test(text),
  );
  expect(resolving.map(({ file }) => file)).toEqual(["migrations/routines/alerts/resolve_alerts.sql"]);
  expect(resolving[0]?.text).toMatch(/for update skip locked/);
});

test("every kind is raised somewhere", () => {
  const all = sources
    .filter(({ file }) => file !== "src/alert-kinds.ts")
    .map(({ text }) => text)
    .join("\n");
  const unused = Object.keys(ALERT_KINDS).filter((kind) => {
    const [service, ...rest] = kind.split("-");
    return !all.includes(`"${kind}"`) && !all.includes(`'${kind}'`) && !(rest.join("-") === "passed-by" && service);
  });
  expect(unused).toEqual([]);
});

describe("the compiler", () => {
  const on = (alert: NewAlert) => alert.kind;
  const [subject, message] = ["q", "m"];

  test("asks for the details and the part that a kind carries", () => {
    expect(on({ kind: "queue-locked", subject, message })).toBe("queue-locked");
    expect(on({ kind: "claims-failing", subject, message, details: { reason: "r" } })).toBe("claims-failing");
    // @ts-expect-error: what it carries is missing
    on({ kind: "claims-failing", subject, message });
    // @ts-expect-error: it carries nothing
    on({ kind: "queue-locked", subject, message, details: { reason: "r" } });
    // @ts-expect-error: by its claim it is found again
    on({ kind: "outcome-stuck", subject, message });
    // @ts-expect-error: there is no such kind
    on({ kind: "never-heard-of", subject, message });
  });
});

test("the documentation has a row for each kind", () => {
  const rows = Object.entries(ALERT_KINDS).map(
    ([name, { severity, subject, means, over }]) => `| \`${name}\` | ${severity} | ${subject} | ${means} | ${over} |`,
  );
  const page = readFileSync(new URL("docs/alerts.md", root), "utf8");
  expect(page.split("\n").filter((line) => line.startsWith("| `"))).toEqual(rows);
});

test("an alert of a kind that only a newer version knows is a warning", () => {
  expect(severityOf("of-tomorrow")).toBe("warning");
  expect((Object.keys(ALERT_KINDS) as AlertKind[]).filter((kind) => severityOf(kind) === "critical")).toContain(
    "mass-death",
  );
});

/** What is wrong, what has been, and what helps. */
import { expect, test } from "vitest";
import { raiseAlert } from "../../src/sql/alerts.ts";
import { openTestEverbeat } from "../support/database.ts";
import { massDeath } from "../support/mass-death.ts";
import { everbeat as cli } from "./run-cli.ts";
import { everbeatHere as here, everbeatJsonHere as jsonHere } from "./run-here.ts";

const { everbeat, database } = await openTestEverbeat();
const at = { database: database.url };

test("where nothing is wrong, that is said", async () => {
  expect((await here(["alerts"], at)).stdout).toBe("Nothing is wrong: no alert is open.\n");
  expect((await here(["alerts", "--all"], at)).stdout).toBe("There is no such alert on record.\n");
});

test("where none fits what was asked for, nothing is said of the others", async () => {
  for (const filter of [
    ["--kind", "crash-loop"],
    ["--subject", "mail"],
  ])
    expect((await here(["alerts", ...filter], at)).stdout).toBe("No open alert fits these filters.\n");
  const empty = "No post-mortem fits these filters.\n";
  expect((await here(["post-mortems", "--cause", "deploy"], at)).stdout).toBe(empty);
  expect((await here(["post-mortems", "--kind", "replica"], at)).stdout).toBe(empty);
  const nobody = "5b0f3c1e-7a52-4c1b-9d7a-2f0a4f0f6b11";
  for (const [words, answer] of [
    [["tasks", "review", "--name", "nosuch"], "No task that needs review fits these filters."],
    [
      ["tasks", "review", "--queue", "nosuch", "--done"],
      "No task that needs review fits these filters. Nothing was done.",
    ],
    [
      ["tasks", "review", nobody, "--done"],
      "None of these failed because its worker or runner died. Nothing was done.",
    ],
    [["tasks", "quarantined", "--name", "nosuch"], "No task in quarantine fits these filters."],
    [["tasks", "quarantined", nobody, "--redrive"], "None of these is in quarantine. Nothing was done."],
    [["stale", "--replica", nobody], "No stale task fits these filters."],
    [["recover", "--name", "nosuch"], "No stale task fits these filters, so nothing was done."],
  ] as const)
    expect((await here(words, at)).stdout).toBe(`${answer}\n`);
});

test("those that are open are shown with what helps; those that are over where they are asked for", async () => {
  await raiseAlert(everbeat.database, massDeath());
  await raiseAlert(everbeat.database, {
    ...{
      kind: "queue-not-usable",
      subject: "mail",
      message: "nothing can be claimed from it",
      details: { reason: "so" },
    },
  });
  await database.query(
    "update everbeat.alert set raised_at = now() - interval '2 hours', resolved_at = now() - interval '1 hour' where kind = 'queue-not-usable'",
  );

  const { code, stdout } = await cli(["alerts"], at);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^! mass-death {2}hearts, raised .*\n {2}3 of 4 machines fell silent at once\n/);
  expect(stdout).toContain("$ everbeat recover --confirm hearts");
  expect(stdout).not.toContain("queue-not-usable");

  for (const words of [["--all"], ["--since", "90m"], ["--all", "--kind", "queue-not-usable", "--subject", "mail"]]) {
    const all = (await here(["alerts", ...words], at)).stdout;
    expect(all).toMatch(
      /^✓ queue-not-usable {2}mail, raised 2h( \d+s)? ago, over 1h( \d+s)? ago\n {2}nothing can be claimed from it$/m,
    );
    expect(all.includes("mass-death")).toBe(!words.includes("--kind"));
  }
  expect((await here(["alerts", "--since", "30m"], at)).stdout).not.toContain("queue-not-usable");
  const { answer } = await jsonHere<{ alerts: object[] }>(["alerts", "--all", "--limit", "1"], at);
  expect(answer.alerts).toEqual([expect.objectContaining({ kind: expect.any(String), message: expect.any(String) })]);
});

test("a kind that is none is refused with the nearest one", async () => {
  const { code, stderr } = await here(["alerts", "--kind", "mass-deaths"], at);
  expect(code).toBe(2);
  expect(stderr).toContain('did you mean "mass-death"?\n');
});

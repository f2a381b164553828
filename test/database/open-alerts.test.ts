/** The alerts of a supervisor: they are on record for as long as they are open, however long that is. */
import { expect, test } from "vitest";
import { Events } from "../../src/events.ts";
import { DurableWords } from "../../src/supervisor/durable-words.ts";
import { OpenAlerts } from "../../src/supervisor/open-alerts.ts";
import { holding } from "../support/crash-database.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { refuse } from "../support/refusing.ts";

const { everbeat, database } = await openTestEverbeat();
const open = async () => (await everbeat.recovery.alerts()).map(({ kind, subject }) => `${kind} ${subject}`).sort();
const fail = (error: unknown) => {
  throw error;
};

test("one that has left the record while it was open is raised again, and none that is resolved", async () => {
  const words = new DurableWords(new Events(fail), fail);
  const alerts = new OpenAlerts(everbeat.database, words);
  for (const subject of ["child 1", "child 2"]) alerts.raise({ kind: "crash-loop", subject, message: "it loops" });
  await words.told();
  alerts.resolve("crash-loop", "child 1");
  await words.told();
  expect(await open()).toEqual(["crash-loop child 2"]);
  await database.query("delete from everbeat.alert");
  await alerts.raiseAgain();
  await alerts.raiseAgain();
  expect(await open()).toEqual(["crash-loop child 2"]);
});

test("one that is resolved while it is still being raised stays resolved", async () => {
  await database.query("delete from everbeat.alert");
  const words = new DurableWords(new Events(fail), fail);
  const alerts = new OpenAlerts(everbeat.database, words);
  // The raise waits for this, and a resolve does not see it.
  const other = "insert into everbeat.alert (kind, subject, message) values ('crash-loop', 'child 3', '')";
  const { abandon } = await holding(database.url, other);
  const raising = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  alerts.raise({ kind: "crash-loop", subject: "child 3", message: "it loops" });
  await eventually(async () => (await database.query(raising)).length === 1, { what: "the raise to wait" });
  alerts.resolve("crash-loop", "child 3");
  // Had the resolve been sent, it would be done by now.
  for (let nth = 0; nth < 10; nth++) await open();
  await abandon();
  await words.told();
  expect(await open()).toEqual([]);
});

test("one that is refused keeps no other from being raised again", async () => {
  await database.query("delete from everbeat.alert");
  const failed: unknown[] = [];
  const words = new DurableWords(new Events(fail), (error) => failed.push(error));
  const alerts = new OpenAlerts(everbeat.database, words);
  for (const subject of ["child 4", "child 5"]) alerts.raise({ kind: "crash-loop", subject, message: "it loops" });
  await words.told();
  await database.query("delete from everbeat.alert");
  await refuse(database, "alert", "new.subject = 'child 4'");
  await alerts.raiseAgain();
  expect(await open()).toEqual(["crash-loop child 5"]);
  expect(failed).toHaveLength(1);
});

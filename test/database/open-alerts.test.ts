/** The alerts of a supervisor: they are on record for as long as they are open, however long that is. */
import { expect, test } from "vitest";
import { Events } from "../../src/events.ts";
import { DurableWords } from "../../src/supervisor/durable-words.ts";
import { OpenAlerts } from "../../src/supervisor/open-alerts.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const fail = (error: unknown) => {
  throw error;
};

test("one that has left the record while it was open is raised again, and none that is resolved", async () => {
  const words = new DurableWords(new Events(fail), fail);
  const alerts = new OpenAlerts(everbeat.database, words);
  const open = async () => (await everbeat.recovery.alerts()).map(({ kind, subject }) => `${kind} ${subject}`).sort();
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

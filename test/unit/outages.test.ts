/** What a worker says about its database: that it is away, that it is back, and what it refused. */
import { expect, test } from "vitest";
import { DatabaseUnavailableError } from "../../src/database/errors.ts";
import { Events } from "../../src/events.ts";
import { logEvents } from "../../src/log-events.ts";
import { Outages } from "../../src/worker/outages.ts";

function listenTo() {
  const events = new Events((error) => {
    throw error;
  });
  const told: string[] = [];
  events.on("database.lost", ({ doing }) => told.push(`lost ${doing}`));
  events.on("database.back", ({ doing }) => told.push(`back ${doing}`));
  events.on("database.refused", ({ doing, error }) => told.push(`refused ${doing}: ${(error as Error).message}`));
  return { outages: new Outages(events), told };
}

const refusal = (message: string) => Object.assign(new Error(message), { code: "P0001" });

test("an outage is told of once, and its end", () => {
  const { outages, told } = listenTo();
  const gone = Object.assign(new Error("gone"), { code: "ECONNREFUSED" });
  outages.noticed(gone, "claiming tasks");
  outages.noticed(gone, "writing outcomes");
  outages.over("claiming tasks");
  outages.over("writing outcomes");
  expect(told).toEqual(["lost claiming tasks", "back claiming tasks"]);
});

test("a database that refuses a value is not away, and each refusal is told of once", () => {
  const { outages, told } = listenTo();
  for (let times = 0; times < 3; times++) {
    outages.noticed(refusal("not this one"), "giving tasks back");
    outages.over("claiming tasks");
  }
  outages.noticed(refusal("nor that one"), "giving tasks back");
  expect(told).toEqual(["refused giving tasks back: not this one", "refused giving tasks back: nor that one"]);
});

test("refusals without number are not all remembered", () => {
  const { outages, told } = listenTo();
  for (let id = 0; id < 250; id++) outages.noticed(refusal(`task ${id}`), "giving tasks back");
  outages.noticed(refusal("task 0"), "giving tasks back");
  expect(told).toHaveLength(251);
});

test.each([
  ["42501", "permission denied for table ready"],
  ["42P01", 'relation "everbeat.ready" does not exist'],
  ["28P01", 'password authentication failed for user "app"'],
])("a database that refuses with %s is not away", (code, message) => {
  const { outages, told } = listenTo();
  const refused = Object.assign(new Error(message), { code });
  // As it is told where no connection can be made.
  const wrapped = new DatabaseUnavailableError([`postgres://host: ${message}`], { cause: refused });
  for (let times = 0; times < 2; times++) outages.noticed(refused, "claiming tasks");
  outages.noticed(wrapped, "writing outcomes");
  outages.over("claiming tasks");
  expect(told).toEqual([`refused claiming tasks: ${message}`, `refused writing outcomes: ${wrapped.message}`]);
});

test("what is refused for a missing right is logged with the database's words, and with what to do", () => {
  const lines: string[] = [];
  const line = (_fields: unknown, message: string) => void lines.push(message);
  const events = new Events((error) => {
    throw error;
  });
  logEvents(events, { debug: line, info: line, warn: line, error: line });
  const outages = new Outages(events);
  const denied = Object.assign(new Error("permission denied for table ready"), { code: "42501" });
  outages.noticed(denied, "claiming tasks");
  outages.noticed(refusal("not this one"), "claiming tasks");
  expect(lines).toEqual([
    "the database refused claiming tasks: permission denied for table ready; run `everbeat doctor`",
    "the database refused what it was given while claiming tasks: not this one",
  ]);
});

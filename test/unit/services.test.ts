/** What runs in the background: the list and its page. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { SERVICES } from "../../src/services/list.ts";

test("the page lists all services, with what the list says of them", () => {
  const page = readFileSync("docs/operations.md", "utf8");
  const rows = page
    .slice(page.indexOf("| service | runs | every | does |"), page.indexOf("What runs *once in the cluster*"))
    .trim()
    .split("\n")
    .slice(2);
  const expected = Object.entries(SERVICES).map(([name, { scope, interval, does }]) => {
    const runs = scope === "cluster" ? "once in the cluster" : "in each process";
    return `| ${name} | ${runs} | ${interval} | ${does} |`;
  });
  expect([...rows].sort()).toEqual(expected.sort());
});

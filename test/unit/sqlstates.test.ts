/** The codes with which the database refuses are documented, and none of them means two things. */
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const PAGE = readFileSync("docs/transactions.md", "utf8");
const FOLDER = "migrations/routines";
const raised = readdirSync(FOLDER, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".sql"))
  .flatMap((file) =>
    [...readFileSync(`${FOLDER}/${file}`, "utf8").matchAll(/errcode = '(EB\d{3})'/g)].map(([, code = ""]) => ({
      ...{ code, subject: file.split("/")[0] },
    })),
  );
/** Raised and caught in one function, to take back what it has tried. */
const CAUGHT = "EB999";
const codes = [...new Set(raised.map(({ code }) => code))].filter((code) => code !== CAUGHT).sort();

test.each(codes)("%s is raised on one subject", (code) => {
  expect(new Set(raised.filter((one) => one.code === code).map(({ subject }) => subject)).size).toBe(1);
});

test("all of them are in the table of docs/transactions.md", () => {
  expect([...PAGE.matchAll(/^\| `(EB\d{3})`/gm)].map(([, code]) => code)).toEqual(codes);
});

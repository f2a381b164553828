/** What switches a protection off still fits the code, and the test that must go red then is there. `npm run test:protections` tries it. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { PROTECTIONS } from "../protections/protections.js";

const read = (path: string) => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8");

describe.each(PROTECTIONS)("without $name", ({ changes, test: [file = "", title = ""] }) => {
  test.each(changes)("the text is once in $file, and another takes its place", ({ file, find, replace }) => {
    expect(read(file).split(find)).toHaveLength(2);
    expect(replace).not.toBe(find);
  });

  test("a named test goes red", () => {
    expect(read(file).split(`test("${title}"`)).toHaveLength(2);
  });
});

/** docs/performance.md and its plots show the figures of the results that the page names, and no others. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { MEASURES } from "../../bench/measures/index.js";
import { docsFrom } from "../../bench/report/write-docs.js";

const root = fileURLToPath(new URL("../../", import.meta.url));

const page = readFileSync(join(root, "docs/performance.md"), "utf8");
const file = /from (bench\/results\/\S+\.json)\./.exec(page)?.[1];

test("the results that the page names have every measure", () => {
  const { measures } = JSON.parse(readFileSync(join(root, String(file)), "utf8")) as { measures: object };
  expect(Object.keys(measures).toSorted()).toEqual(MEASURES.map(({ name }) => name).toSorted());
});

test("the page is what the results on record give", () => {
  expect(file, "the page names its results").toBeDefined();
  const written = docsFrom(join(root, String(file)));
  expect(Object.keys(written).length).toBeGreaterThan(1);
  for (const [path, text] of Object.entries(written)) {
    const message = `${path}: run npm run bench -- --write-docs ${file}`;
    expect(existsSync(join(root, path)), message).toBe(true);
    expect(readFileSync(join(root, path), "utf8") === text, message).toBe(true);
  }
});

/** Every command that a file defines can be typed, and is in the page of the command line. */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { allCommands } from "../support/commands.ts";

const commands = allCommands();

describe("commands", () => {
  test("are all that the files define, each in a file of its name", () => {
    const files = readdirSync("src/cli/commands").map((file) => file.replace(/\.ts$/, ""));
    expect(commands.map((words) => words.join("-")).sort()).toEqual(files.sort());
  });

  test.each(commands.map((words) => words.join(" ")))("%s is in the table of the page", (name) => {
    const rows = readFileSync("docs/cli.md", "utf8")
      .split("\n")
      .filter((line) => line.startsWith("| [`"));
    const tokens = rows.map((row) => new Set(row.match(/[a-z-]+/g)));
    expect(tokens.filter((row) => name.split(" ").every((word) => row.has(word)))).not.toEqual([]);
  });
});

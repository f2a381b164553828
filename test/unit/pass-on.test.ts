/** What runners print on its way to a stream of their replica: in whole lines, soon, and with its end kept. */
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { passOn } from "../../src/runner/pass-on.ts";
import { printedDuring } from "../cli/run-here.ts";
import { eventually } from "../support/eventually.ts";

/** What this process's standard output is given, write by write, while that is done. */
async function passedOn(work: (written: readonly string[]) => Promise<void>): Promise<string[]> {
  const written: string[] = [];
  await printedDuring(async () => {
    const write = process.stdout.write as (...given: unknown[]) => boolean;
    process.stdout.write = (chunk: string | Uint8Array, ...rest: unknown[]) => {
      written.push(String(chunk));
      return write(chunk, ...rest);
    };
    await work(written);
  });
  return written;
}

test("the lines of two runners do not get mixed up, however they are cut", async () => {
  const [one, other] = [new PassThrough(), new PassThrough()];
  passOn([one], "stdout");
  passOn([other], "stdout");
  const written = await passedOn(async (soFar) => {
    one.write("one says ");
    other.write("the other says this\nand ");
    one.write("this\nand more\n");
    other.end("this\n");
    await eventually(() => soFar.join("").includes("and this\n"));
  });
  expect(written.every((text) => text.endsWith("\n"))).toBe(true);
  expect(written.join("").split("\n").slice(0, -1).sort()).toEqual(
    ["one says this", "and more", "the other says this", "and this"].sort(),
  );
});

test("a line without an end is shown after a moment, and what follows goes on in it", async () => {
  const printed = new PassThrough();
  passOn([printed], "stdout");
  const written = await passedOn(async (soFar) => {
    printed.write("Password: ");
    await eventually(() => soFar.includes("Password: "));
    printed.write("given\n");
    await eventually(() => soFar.length === 2);
  });
  expect(written).toEqual(["Password: ", "given\n"]);
});

test("a line without an end is shown when its runner ends, and when it is too long to keep", async () => {
  const [ending, endless] = [new PassThrough(), new PassThrough()];
  passOn([ending], "stdout");
  passOn([endless], "stdout");
  const long = "x".repeat(70_000);
  const written = await passedOn(async (soFar) => {
    endless.write(long);
    ending.end("last words");
    await eventually(() => soFar.join("").length === long.length + "last words".length);
  });
  expect(written).toContain("last words");
});

test("a character whose bytes come one after the other arrives whole", async () => {
  const printed = new PassThrough();
  passOn([printed], "stdout");
  const written = await passedOn(async (soFar) => {
    for (const byte of Buffer.from("é🙂\n")) printed.write(Buffer.from([byte]));
    await eventually(() => soFar.join("").endsWith("\n"));
  });
  expect(written.join("")).toBe("é🙂\n");
});

test("the end of what was printed is kept, for the post-mortem", async () => {
  const printed = new PassThrough();
  const tail = passOn([printed], "stdout");
  const text = Array.from({ length: 2_000 }, (_, line) => `line ${line}\n`).join("");
  await passedOn(async (soFar) => {
    printed.write(text);
    await eventually(() => soFar.join("") === text);
  });
  expect(tail()).toBe(text.slice(-8_192));
});

test("a pipe that breaks has ended, and is nobody's error", async () => {
  const printed = new PassThrough();
  passOn([printed], "stdout");
  const written = await passedOn(async (soFar) => {
    printed.write("half a line");
    await new Promise((resume) => setImmediate(resume));
    printed.destroy(new Error("read EIO"));
    await eventually(() => soFar.length > 0);
  });
  expect(written).toEqual(["half a line"]);
});

/** What of another thread's stack is kept. */
import { describe, expect, test } from "vitest";
import { framesOf } from "../../src/heart/thread-stack.ts";

const FOLDER = "/home/a user/everbeat/dist/";
const stack = (...frames: string[]) =>
  ["Error", "    at <anonymous>:9:14", ...frames.map((frame) => `    ${frame}`)].join("\n");

describe("the frames of a stack", () => {
  test("name files by their paths, and end with the application's own", () => {
    const frames = framesOf(
      stack(
        "at get performance (node:internal/util:645:17)",
        "at block (file:///home/a%20user/app/100%25.js:3:9)",
        "at async run (file:///home/a%20user/everbeat/dist/parts/X.js:265:5)",
        "at process.processTicksAndRejections (node:internal/process/task_queues:103:5)",
      ),
      FOLDER,
    );
    expect(frames?.split("\n")).toEqual([
      "at get performance (node:internal/util:645:17)",
      "at block (/home/a user/app/100%.js:3:9)",
    ]);
  });

  test("stay where all are ours, and where a URL is none that could be a path", () => {
    const ours = "at run (file:///home/a%20user/everbeat/dist/parts/X.js:265:5)";
    expect(framesOf(stack(ours), FOLDER)).toBe("at run (/home/a user/everbeat/dist/parts/X.js:265:5)");
    expect(framesOf(stack("at f (file:///a%2Fb.js:1:2)"), FOLDER)).toBe("at f (file:///a%2Fb.js:1:2)");
  });

  test("are none where there is only the question", () => {
    expect(framesOf(stack(), FOLDER)).toBeUndefined();
  });
});

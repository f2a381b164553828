/** Tasks that print, in all places where a task can run, as files of a user's project; and what a test knows them by. */

import type { AlertRow } from "../../src/alert-kinds.ts";
import type { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";

export const PRINTING = ["inline", "thread", "process"] as const;

export const printing = (name: (typeof PRINTING)[number]) =>
  defineTask({ name, run: async (_input: { lines?: number; text?: string }): Promise<unknown> => undefined });

/** How many bytes a worker keeps, after its garbage was collected. */
export const kept = defineTask({ name: "kept", run: async (): Promise<number> => 0 });

/** Each prints its lines by all means that there are, and lets what became of that come back. */
export const PRINTING_TASKS = `
  import { setFlagsFromString } from "node:v8";
  import { runInNewContext } from "node:vm";
  import { defineTask } from "everbeat";
  const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));
  const run = async ({ lines = 1, text = "printed" }, { log }) => {
    for (let line = 0; line < lines; line++) {
      process.stdout.write(text + "\\n");
      console.log(text);
      process.stderr.write(text + "\\n");
      console.error(text);
      log.info({ line }, text);
      if (line % 100 === 99) await pause(0);
    }
    await new Promise((resume, fail) => process.stdout.write("last\\n", (error) => (error ? fail(error) : resume())));
    await pause(50);
    return bytesKept();
  };
  const bytesKept = () => {
    setFlagsFromString("--expose-gc");
    runInNewContext("gc")();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  export const inline = defineTask({ name: "inline", run });
  export const thread = defineTask({ name: "thread", runIn: "thread", run });
  export const process_ = defineTask({ name: "process", runIn: "process", run });
  export const kept = defineTask({ name: "kept", run: async () => bytesKept() });
`;

/** Prints numbered lines of a hundred bytes on standard error, by which those that were dropped can be told. */
export const NUMBERING_TASK = `
  import { defineTask } from "everbeat";
  export const numbering = defineTask({
    name: "numbering",
    run: async ({ from, lines }) => {
      for (let line = from; line < from + lines; line++) process.stderr.write(("line " + line + " ").padEnd(99, ".") + "\\n");
    },
  });
`;

export const numbering = defineTask({
  name: "numbering",
  run: async (_input: { from: number; lines: number }): Promise<void> => {},
});

/** Of the lines that were printed whole. */
export function numbersIn(printed: string): number[] {
  return printed
    .split("\n")
    .filter((line) => line.length === 99)
    .map((line) => Number(/^line (\d+) \.+$/.exec(line)?.[1]));
}

/** Those about logs, the newest first, also those that are over. */
export async function alertsOf(everbeat: Everbeat): Promise<readonly AlertRow[]> {
  return (await everbeat.alerts.list()).filter(({ kind }) => kind === "log-dropped");
}

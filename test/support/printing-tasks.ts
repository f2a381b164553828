/** Tasks that print, in all places where a task can run, as files of a user's project; and what a test knows them by. */
import { defineTask } from "../../src/task/define-task.ts";

export const PRINTING = ["inline", "thread", "process"] as const;

export const printing = (name: (typeof PRINTING)[number]) =>
  defineTask({ name, run: async (_input: { lines?: number; text?: string }): Promise<unknown> => undefined });

/** Each prints its lines by all means that there are, lets what became of that come back, and returns how large its process is. */
export const PRINTING_TASKS = `
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
    return process.memoryUsage().rss;
  };
  export const inline = defineTask({ name: "inline", run });
  export const thread = defineTask({ name: "thread", runIn: "thread", run });
  export const process_ = defineTask({ name: "process", runIn: "process", run });
`;

import { setTimeout as pause } from "node:timers/promises";
import { defineTask } from "everbeat";
import { z } from "zod";

export const sendReport = defineTask({
  name: "send-report",
  input: z.object({ report: z.string(), takesMs: z.int() }),
  async run({ report, takesMs }, { signal }) {
    await pause(takesMs, undefined, { signal });
    return `${report} was sent`;
  },
});

import { setTimeout as pause } from "node:timers/promises";
import { defineTask } from "everbeat";
import { z } from "zod";

/** Never two at once for one database: whoever enqueues it gives the database's name as the exclusive key. */
export const migrateDatabase = defineTask({
  name: "migrate-database",
  input: z.object({ database: z.string(), version: z.int(), takesMs: z.int() }),
  // The default, said aloud: half a migration must not be repeated by a machine.
  onCrash: "fail",
  async run({ database, version, takesMs }, { signal }) {
    await pause(takesMs, undefined, { signal });
    return `${database} is at version ${version}`;
  },
});

/** A worker process that is about to commit, and is stopped by the operating system at that very moment. */
import { Everbeat } from "everbeat";
import { bookPayment, told } from "./tasks.ts";

const everbeat = await Everbeat.open({ schema: "example_fenced", log: "silent" });
// When the worker has tried to write how its attempt ended, and was told that it is too late.
everbeat.on("claim.lost", ({ refusedOutcome }) => refusedOutcome && process.send?.("outcome refused"));

const task = bookPayment({
  everbeat,
  by: "the worker that was stopped",
  async beforeCommit() {
    process.send?.("about to commit");
    await told("go on");
  },
  onRefused: (error) => process.send?.(`commit refused: ${(error as { code?: string }).code}`),
});
await everbeat.work([task], { concurrency: 1 });

await told("leave");
await everbeat.close();
process.disconnect();

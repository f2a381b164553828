/** A worker with one slot that claims two tasks ahead; whether dead workers' tasks recover by themselves is an argument. */
import { Everbeat } from "everbeat";
import { sendReport } from "./tasks.ts";

const isOn = process.argv[2] === "on";
const everbeat = await Everbeat.open({
  schema: "example_claimed",
  log: "silent",
  recovery: { autoRequeueStaleClaimed: isOn, autoFailStaleRunning: isOn },
});
everbeat.on("heart.beating", () => process.send?.("beating"));
await everbeat.work([sendReport], { concurrency: 1, prefetch: 2 });

process.on("disconnect", () => void everbeat.close({ now: true }).then(() => process.exit()));

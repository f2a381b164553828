/** One replica: a worker process that beats for as long as it lives. */
import { Everbeat } from "everbeat";
import { migrateDatabase } from "./tasks.ts";

const everbeat = await Everbeat.open({ schema: "example_replicas", log: "silent" });
// Until its heart has been heard, nothing could tell of its end but silence.
everbeat.on("heart.beating", ({ replicaId }) => process.send?.(replicaId));
await everbeat.work([migrateDatabase], { concurrency: 2, prefetch: 0 });

process.on("disconnect", () => void everbeat.close({ now: true }).then(() => process.exit()));

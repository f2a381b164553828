// A program that starts a worker and closes at once: says which timers are left, which would keep it from ending. Argument: the database's address.
import { defineTask, Everbeat } from "../../dist/index.js";

const everbeat = await Everbeat.open({ database: process.argv[2], log: "silent" });
await everbeat.work([defineTask({ name: "never", run: () => null })], { handleSignals: false });
await everbeat.close();
console.log(JSON.stringify(process.getActiveResourcesInfo().filter((resource) => resource === "Timeout")));

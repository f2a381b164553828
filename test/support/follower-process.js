// A real process that follows a task, or replicas, from a position or from the beginning, and tells its parent each update.
import { Everbeat } from "../../dist/index.js";

const { url, taskId, from } = JSON.parse(process.argv[2]);
process.on("disconnect", () => process.kill(process.pid, "SIGKILL"));
const everbeat = await Everbeat.open({ database: url, log: "silent" });
for await (const update of taskId ? everbeat.follow(taskId, { from }) : everbeat.followReplicas({ from })) {
  process.send(update);
}
await everbeat.close();
process.send({ kind: "over" });
process.disconnect();

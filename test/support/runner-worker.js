// A real replica with runners: its configuration is its argument (JSON); events and its handlers' log lines go to its parent.
import { defineBatchTask, defineTask, Everbeat } from "../../dist/index.js";

const { url, open = {}, work = {}, tasks = [], forward = [], module } = JSON.parse(process.argv[2]);
const say = (message) => process.connected && process.send(JSON.parse(JSON.stringify(message)));
process.on("disconnect", () => process.kill(process.pid, "SIGKILL"));
const line = (level) => (fields, message) => fields.event === undefined && say({ level, ...fields, said: message });
const log = { debug: line("debug"), info: line("info"), warn: line("warn"), error: line("error") };

const everbeat = await Everbeat.open({ database: url, log, ...open });
for (const name of forward) everbeat.on(name, (event) => say({ event: name, ...event }));
const definitions = tasks.map(({ handler, ...options }) =>
  (options.batchSize ? defineBatchTask : defineTask)({
    name: handler,
    module: module ?? new URL("runner-tasks.js", import.meta.url),
    run: async () => "inline",
    ...options,
  }),
);
const worker = await everbeat.work(definitions, { pollInterval: 200, ...work });
process.on("message", async ({ close, block }) => {
  if (block) for (const until = performance.now() + block; performance.now() < until; );
  if (close) {
    await everbeat.close();
    process.exit(0);
  }
});
say({ ready: true, replicaId: worker.replicaId });

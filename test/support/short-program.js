// A program as a user would write it: it opens, enqueues a task, waits for its result and closes, and never calls process.exit(). Its
// configuration is its argument (JSON). It says what is left of it once close() has resolved, which is what could keep it from ending, and how
// long its loop waited for something after that.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import pg from "pg";
import { defineTask, Everbeat } from "../../dist/index.js";
import { HANDLERS } from "./runner-tasks.js";

const {
  url,
  open = {},
  work = {},
  runIn,
  handler = "look",
  input = {},
  hasOwnPool,
  now,
  isAwaited = true,
  signals = 0,
  seesItsEndLate = false,
} = JSON.parse(process.argv[2]);
const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
say({ began: true });
const before = process.getActiveResourcesInfo();

// A heart that needs a function of this thread for its password lives on this thread.
const pool = hasOwnPool ? new pg.Pool({ connectionString: url, password: () => "" }) : undefined;
const ended = [];
pool?.on("connect", (client) => ended.push(once(client, "end")));
const hear = ({ left, pid }, message) => {
  if (left) say({ leftBehind: left });
  // This loop does not turn until the runner is dead. So it learns of the runner's end, and of the end of its pipes, in one turn.
  if (seesItsEndLate && message === "begun") while (!readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z "));
};
const log = { debug: hear, info: hear, warn: hear, error: hear };
const everbeat = await Everbeat.open({ database: pool ?? url, log, ...open });
const module = new URL("runner-tasks.js", import.meta.url);
const task = defineTask({ name: handler, run: HANDLERS[handler], module, runIn });
if (runIn) await everbeat.work([task], work);
const id = await everbeat.enqueue(task, input);
if (runIn && isAwaited) say({ result: await everbeat.result(id).catch(({ code }) => code) });
// A program that hears signals itself is not ended by them.
process.on("SIGTERM", () => {});
for (let sent = 0; sent < signals; sent++) {
  const heard = once(process, "SIGTERM");
  process.kill(process.pid, "SIGTERM");
  await heard;
}
await everbeat.close({ now });
// The pool does not wait until its own connections are closed.
await Promise.all([pool?.end(), ...ended]);

const { idleTime } = performance.nodeTiming;
const left = process.getActiveResourcesInfo();
for (const resource of before) if (left.includes(resource)) left.splice(left.indexOf(resource), 1);
say({ left });
process.once("exit", () => say({ waitedMs: performance.nodeTiming.idleTime - idleTime }));

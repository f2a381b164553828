// A process whose main thread is busy in many ways while another thread asks over and over where it is: says what came of it,
// and whether anything of its own was disturbed. A debugger is attached all the while.
import { Session } from "node:inspector";
import { Worker } from "node:worker_threads";

const asking = `
  const { parentPort, workerData } = require("node:worker_threads");
  import(workerData).then(async ({ readMainStack }) => {
    for (;;) parentPort.postMessage(await readMainStack());
  });`;
const debuggerSession = new Session();
debuggerSession.connect();
let pauses = 0;
debuggerSession.on("Debugger.paused", () => pauses++);
debuggerSession.post("Debugger.enable");

const answers = [];
const file = new URL("../../dist/heart/thread-stack.js", import.meta.url).href;
const thread = new Worker(asking, { eval: true, workerData: file });
thread.on("message", (answer) => answers.push(answer));
await new Promise((resolve) => thread.once("message", resolve));

Error.stackTraceLimit = 7;
const prepared = () => "prepared by the application";
Error.prepareStackTrace = prepared;
let isDisturbed = false;
const BUSY = {
  counting: () => Array.from({ length: 20_000 }, (_, i) => i).reduce((sum, i) => sum + i, 0) === 199_990_000,
  sorting: () => Array.from({ length: 5_000 }, (_, i) => (i * 7_919) % 5_003).sort((a, b) => a - b)[4_999] > 0,
  parsing: () =>
    JSON.parse(JSON.stringify({ list: Array.from({ length: 5_000 }, (_, i) => ({ i })) })).list.length === 5_000,
  matching: () => /^(a+)+$/.test(`${"a".repeat(20)}b`) === false,
  generating: () =>
    [
      ...(function* () {
        for (let i = 0; i < 5_000; i++) yield i;
      })(),
    ].length === 5_000,
  building: () => new Map(Array.from({ length: 3_000 }, (_, i) => [String(i), i])).size === 3_000,
};
const wrong = new Set();
const until = performance.now() + 3_000;
const before = answers.length;
// Its turn comes when this one is over, and no sooner: an answer must not run what waits.
Promise.resolve().then(() => {
  isDisturbed = performance.now() < until;
});
while (performance.now() < until) {
  for (const [name, isRight] of Object.entries(BUSY)) if (!isRight()) wrong.add(name);
}
if (Error.stackTraceLimit !== 7 || Error.prepareStackTrace !== prepared) wrong.add("what it touches was not put back");
await new Promise((resolve) => setTimeout(resolve, 50));
const during = answers.slice(before);
const times = during.map(({ tookMs }) => tookMs).sort((a, b) => a - b);
const at = (share) => times[Math.min(times.length - 1, Math.floor(times.length * share))];
console.log(
  JSON.stringify({
    answers: during.length,
    withStack: during.filter(({ stack }) => stack?.includes("main-stack-probe.js")).length,
    p50: at(0.5),
    p99: at(0.99),
    wrong: [...wrong],
    isDisturbed,
    pauses,
  }),
);
process.exit(0);

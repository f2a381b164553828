// How long a busy thread takes to say where it is: `main` or `thread`, and how deep it stands in its own calls. A debugger is
// attached to it all the while. Says how often it was asked, how long each answer took, and whether anybody was disturbed.
import { Session } from "node:inspector";
import { Worker } from "node:worker_threads";

const [whose, depth] = [process.argv[2], Number(process.argv[3])];
const FILE = new URL("../../dist/heart/thread-stack.js", import.meta.url).href;
const BUSY_MS = 3_000;
const busy = `
  function descend(left, until) {
    if (left > 0) return 1 + descend(left - 1, until);
    let sum = 0;
    while (performance.now() < until) for (let i = 0; i < 1000; i++) sum += i % 7;
    return 0;
  }`;
const asking = `
  async function askUntil(isOver, ask) {
    const answers = [];
    while (!isOver()) {
      answers.push(await ask());
      await new Promise((resume) => setTimeout(resume, 20));
    }
    return answers;
  }`;

let pauses = 0;
const say = (answers, descended) => {
  const during = answers.filter(({ stack }) => stack?.includes("descend"));
  const took = during.map(({ tookMs }) => tookMs).sort((a, b) => a - b);
  const frames = during.map(({ stack }) => stack.split("\n").length);
  console.log(
    JSON.stringify({
      asked: took.length,
      median: took[took.length >> 1],
      quick: took[took.length >> 2],
      max: took.at(-1),
      frames,
      descended,
      pauses,
    }),
  );
  process.exit(0);
};
const debuggerSession = new Session();
debuggerSession.connect();

if (whose === "main") {
  debuggerSession.on("Debugger.paused", () => pauses++);
  debuggerSession.post("Debugger.enable");
  const done = new Int32Array(new SharedArrayBuffer(4));
  const thread = new Worker(
    `const { parentPort, workerData: { done, file } } = require("node:worker_threads"); ${asking}
     import(file).then(async ({ readMainStack }) => {
       parentPort.postMessage("ready");
       parentPort.postMessage(await askUntil(() => Atomics.load(done, 0) === 1, readMainStack));
     });`,
    { eval: true, workerData: { done, file: FILE } },
  );
  await new Promise((resolve) => thread.once("message", resolve));
  const descend = new Function(`${busy} return descend;`)();
  const descended = descend(depth, performance.now() + BUSY_MS);
  Atomics.store(done, 0, 1);
  thread.once("message", (answers) => say(answers, descended));
} else {
  const { readStackOfThread } = await import(FILE);
  const askUntil = new Function(`${asking} return askUntil;`)();
  const thread = new Worker(
    `const { parentPort } = require("node:worker_threads"); ${busy}
     parentPort.once("message", () => parentPort.postMessage(descend(${depth}, performance.now() + ${BUSY_MS})));
     parentPort.postMessage("ready");`,
    { eval: true },
  );
  await new Promise((resolve) => thread.once("message", resolve));
  debuggerSession.on("NodeWorker.receivedMessageFromWorker", ({ params: { message } }) => {
    if (JSON.parse(message).method === "Debugger.paused") pauses++;
  });
  debuggerSession.on("NodeWorker.attachedToWorker", ({ params: { sessionId } }) =>
    debuggerSession.post("NodeWorker.sendMessageToWorker", {
      sessionId,
      message: JSON.stringify({ id: 1, method: "Debugger.enable" }),
    }),
  );
  debuggerSession.post("NodeWorker.enable", { waitForDebuggerOnStart: false });
  let descended;
  thread.once("message", (depthReached) => {
    descended = depthReached;
  });
  thread.postMessage("begin");
  say(
    await askUntil(
      () => descended !== undefined,
      () => readStackOfThread(thread.threadId),
    ),
    descended,
  );
}

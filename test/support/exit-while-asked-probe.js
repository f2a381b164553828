// A process that ends at the very moment in which a thread of its own, busy for ever, is asked where it is.
import { Session } from "node:inspector";
import { Worker } from "node:worker_threads";
import { readStackOfThread } from "../../dist/heart/thread-stack.js";

const thread = new Worker('require("node:worker_threads").parentPort.postMessage("busy"); for (;;);', { eval: true });
await new Promise((resolve) => thread.once("message", resolve));
const { post } = Session.prototype;
Session.prototype.post = function (method, ...rest) {
  post.call(this, method, ...rest);
  if (method === "NodeWorker.sendMessageToWorker") process.exit(0);
};
void readStackOfThread(thread.threadId);

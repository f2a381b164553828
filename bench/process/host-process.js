/** The bench's side of a host: a process that is told what to do, and is gone when its run is over, however that ends. */
import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { processorMsOf, residentBytesOf } from "../environment/processor-time.js";
import { nowNs } from "./clock.js";

const HOST = join(dirname(fileURLToPath(import.meta.url)), "host.js");

export class HostProcess {
  /** When the process was started. */
  startedNs = nowNs();
  tally = { started: 0, handled: 0, firstNs: 0, lastNs: 0 };
  #child;
  #waiting = new Map();
  #nextId = 1;
  #exit;
  #errors = "";
  #onTally = [];
  #isEnding = false;

  constructor({ node, adapter }) {
    this.#child = spawn(node, [HOST, adapter], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      env: { ...process.env, NODE_OPTIONS: "", NODE_ENV: "production" },
    });
    this.#child.stderr.on("data", (text) => {
      this.#errors = (this.#errors + text).slice(-4_000);
    });
    this.#child.on("message", (message) => this.#heard(message));
    this.#exit = new Promise((resolve) => {
      this.#child.once("exit", (code, signal) => {
        const problem = new Error(`The process ended with ${signal ?? code}. ${this.#errors}`);
        for (const { reject } of this.#waiting.values()) reject(problem);
        this.#waiting.clear();
        if (!this.#isEnding) for (const listener of this.#onTally) listener(problem);
        resolve();
      });
    });
  }

  get pid() {
    return this.#child.pid;
  }

  get processorMs() {
    return processorMsOf(this.pid);
  }

  get residentBytes() {
    return residentBytesOf(this.pid);
  }

  /** Does what host.js knows under this name; the answer, or its error. */
  tell(order, given) {
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#child.send({ id, order, with: given }, (error) => error && reject(error));
    });
  }

  /** Called with every new tally, or with the error that ended the process. */
  onTally(listener) {
    this.#onTally.push(listener);
  }

  async kill() {
    this.#isEnding = true;
    this.#child.kill("SIGKILL");
    await this.#exit;
  }

  #heard({ id, value, error, tally }) {
    if (tally) {
      this.tally = tally;
      for (const listener of this.#onTally) listener();
      return;
    }
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error === undefined) waiting?.resolve(value);
    else waiting?.reject(new Error(error));
  }
}

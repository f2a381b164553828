// Handlers that runners load: what they do to the thread or process that runs them is what is tried. They tell the test what
// happens through their log, which comes out at their replica.
import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { appendFileSync, closeSync, existsSync, openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { setPriority } from "node:os";
import { threadId } from "node:worker_threads";
import pg from "pg";
import { defineBatchTask, defineTask } from "../../dist/index.js";

const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));
const begun = (context) => {
  context.log.info({ pid: process.pid, threadId, taskId: context.task.id, attempt: context.task.attempt }, "begun");
  context.signal.addEventListener("abort", () =>
    context.log.info({ taskId: context.task.id, code: context.signal.reason?.code }, "aborted"),
  );
  // So that the line is out before what may follow at once.
  return pause(50);
};
/** Named, so that a stack can be seen to lead here. */
function churn(ms) {
  for (const until = performance.now() + ms; performance.now() < until; );
}
/** 268 million characters, which take memory only when somebody reads one of them. */
function longText() {
  let text = "x";
  for (let doubled = 0; doubled < 28; doubled++) text += text;
  return text;
}
const never = () => new Promise(() => setInterval(() => {}, 1_000));

class Odd extends Error {
  constructor() {
    super("odd", { cause: new Error("the cause of it") });
    this.name = "Odd";
    this.code = "E_ODD";
  }
}

/** What handlers write to the descriptors of their runner: each is a series of texts. */
const GARBAGE = {
  random: () => [Buffer.concat([randomBytes(10_000), Buffer.from("\n")])],
  lines: () => ["hello\n", "null\n", "[]\n", '{"type":"unknown"}\n'],
  half: () => ['{"type":"ca'],
  *endless() {
    for (;;) yield "x".repeat(65_536);
  },
  /** Messages of every kind, for each job and item that there may be. */
  *forged() {
    for (const name of ["toString", "log", "progress", "phase"])
      for (let job = 0; job < 5; job++) yield said({ type: "call", job, item: 0, name, args: ["loud", 7] });
    for (const type of ["blocked", "beat", "turned", "cut-off", "ready", "failed"]) yield said({ type });
    yield said({ type: "failed", error: { code: "X", message: "a forged failure" } });
    for (let job = 0; job < 5; job++) {
      yield said({ type: "completing", job, item: 0 });
      yield said({ type: "outcome", job, item: 0, outcome: { kind: "returned", resultJson: '"forged"' } });
      yield said({ type: "ended", job, memory: 0, isTainted: false });
    }
  },
};
const said = (message) => `${JSON.stringify(message)}\n`;
async function writeAll(fd, text) {
  for (let rest = Buffer.from(text); rest.length > 0; ) {
    try {
      rest = rest.subarray(writeSync(fd, rest));
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
      await pause(1);
    }
  }
}

/** What a handler does when it is told to stop. */
const TOLD_TO_STOP = {
  obey: (signal) => signal.throwIfAborted(),
  "return in time": () => "returned in time",
  async "obey late"(signal) {
    await pause(1_100);
    signal.throwIfAborted();
  },
};

export const HANDLERS = {
  /** Ends well, and leaves something behind that fails. */
  async failLater({ how }) {
    LATE[how]();
    return "done";
  },

  /** Says how it gets on, and ends at once. */
  async report(_, { phase, progress, log }) {
    await phase("counting", { to: 3 });
    for (let done = 1; done <= 3; done++) progress({ done, total: 3 }, `number ${done}`);
    log.info({}, "counted");
    throw new Error("counted enough");
  },
  /** Returns, reports or logs something that is nested too deeply. */
  async nest({ where }, { phase, log }) {
    const nested = (levels) => JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`);
    if (where === "phase") await phase("nesting", nested(2_000));
    if (where === "log") for (const levels of [2_000, 100_000]) log.info({ nested: nested(levels) }, "deep");
    return where === "result" ? nested(100_000) : "done";
  },
  /** What the handler was given, and where it ran. */
  async look(input, context) {
    const { task, claim } = context;
    return {
      ...{ input, pid: process.pid, threadId, taskId: task.id, attempt: task.attempt, claimId: claim.id },
      ...{ enqueuedAt: task.enqueuedAt.toISOString(), metadata: task.metadata },
    };
  },
  /** Only the first attempt dies. */
  async die({ how, once = false, phase }, context) {
    if (phase) await context.phase(phase);
    await begun(context);
    if (once && context.task.attempt > 1) return "survived";
    if (how === "exit") process.exit(3);
    if (how === "abort") process.abort();
    if (how === "memory") for (const held = []; ; ) held.push(new Array(100_000).fill(Math.random()));
    process.kill(process.pid, how);
    await never();
  },
  /** Tells the process with this role to stop, and waits to be stopped with it. */
  async stopWorker({ who, signal }, context) {
    await begun(context);
    process.kill(who === "parent" ? process.ppid : process.pid, signal);
    context.log.info({ taskId: context.task.id }, "signalled");
    await never();
  },
  /** Ends well at once (or badly, the first time), and leaves a timer behind that ends its runner while `meet` is at work there. */
  async leaveTimer({ fails = false }, context) {
    setInterval(() => {
      if (globalThis.isMet) process.exit(1);
    }, 10);
    if (fails && context.task.attempt === 1) throw new Error("failed, and left a timer behind");
    return process.pid;
  },
  /** Ends well, and then its thread is in a call that nobody can interrupt. */
  async leaveStuck({ file }) {
    setTimeout(() => {
      appendFileSync(file, "stuck");
      execFileSync("sleep", ["15"]);
    }, 200);
    return "left";
  },
  /** Meets what was left behind in its runner, if anything was. */
  async meet(_, context) {
    globalThis.isMet = true;
    await begun(context);
    await pause(200);
    return "not met";
  },
  async throwOdd() {
    throw new Odd();
  },
  async throwPointless() {
    throw Object.assign(new Error("no use"), { retryable: false });
  },
  async snoozeOnce(_, context) {
    if (context.task.attempt === 1) context.snooze(10);
    return context.task.attempt;
  },
  async returnMap() {
    return { map: new Map([[1, 2]]) };
  },
  /** Blocks its loop for ever. */
  async spin(_, context) {
    await begun(context);
    // For ever is long on a machine that has other work.
    if (threadId === 0) setPriority(19);
    for (;;);
  },
  /** Blocks its loop for a while: in JavaScript, in a wait, in native code. */
  async compute({ ms, how = "loop" }, context) {
    await begun(context);
    if (threadId === 0) setPriority(10);
    if (how === "loop") churn(ms);
    if (how === "wait") Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
    if (how === "child") execFileSync("sleep", [String(ms / 1_000)]);
    return "computed";
  },
  async hang(_, context) {
    await begun(context);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  },
  /** Deaf to its signal. */
  async never(_, context) {
    await begun(context);
    await never();
  },
  /** Ends when its signal fires. */
  async obey(_, context) {
    await begun(context);
    context.signal.throwIfAborted();
    await new Promise((_resolve, reject) =>
      context.signal.addEventListener("abort", () => reject(context.signal.reason)),
    );
  },
  async wait({ ms }, context) {
    await begun(context);
    await pause(ms);
    return "waited";
  },
  async flood({ lines }, context) {
    for (let line = 0; line < lines; line++) context.log.info({ line }, "flood");
    for (let done = 1; done <= lines; done++) context.progress({ done, total: lines });
    for (let line = 0; line < 1_000; line++) process.stderr.write(`${"x".repeat(100)}\n`);
    return "flooded";
  },
  /** Logs lines as long as they may be, for so long, whether anybody reads them or not; returns by how much its process has grown at the most. */
  async floodLong({ ms }, context) {
    await begun(context);
    const text = "x".repeat(60_000);
    const before = process.memoryUsage().rss;
    let grown = 0;
    for (const until = performance.now() + ms; performance.now() < until; await pause(1)) {
      for (let line = 0; line < 10; line++) context.log.info({ text }, text);
      for (let phase = 0; phase < 100; phase++) await context.phase(`phase ${phase}`, { text: text.slice(0, 4_000) });
      grown = Math.max(grown, process.memoryUsage().rss - before);
    }
    await context.phase("last");
    return grown / 1_048_576;
  },
  /** A line every 10 ms, for as long as it runs. */
  async append({ file }, context) {
    await begun(context);
    for (;;) {
      appendFileSync(file, `${context.claim.id}\n`);
      await pause(10);
    }
  },
  /**
   * Starts a process that appends the claim to a file for as long as it lives, deaf to SIGTERM. Once it has written, the handler dies, returns,
   * does something once its signal has fired, or waits for ever. With `detached` that process is in a session of its own. It holds on to the
   * runner's standard error.
   */
  async leaveBehind({ file, how = "never", detached = false }, context) {
    const script = `trap '' TERM; while :; do echo ${context.claim.id} >> "$0"; sleep 0.02; done`;
    const { pid } = spawn("/bin/sh", ["-c", script, file], { stdio: ["ignore", "ignore", "inherit"], detached });
    while (!existsSync(file) || !readFileSync(file, "utf8").includes(`${context.claim.id}\n`)) await pause(5);
    context.log.info({ taskId: context.task.id, left: pid }, "left behind");
    await begun(context);
    if (how === "return") return pid;
    if (how === "exit") process.exit(3);
    if (how === "throw") throw new Error("as asked");
    if (how === "snooze once") return context.task.attempt === 1 ? context.snooze(0) : pid;
    if (how in TOLD_TO_STOP) {
      const { signal } = context;
      if (!signal.aborted) await new Promise((resume) => signal.addEventListener("abort", resume));
      return TOLD_TO_STOP[how](signal);
    }
    if (how !== "never") process.kill(process.pid, how);
    await never();
  },
  async grow({ megabytes }) {
    globalThis.held = [...(globalThis.held ?? []), Buffer.alloc(megabytes * 1_048_576, 1)];
    return process.pid;
  },
  /** Outside of the JavaScript heap, slowly enough for its beats to show it. */
  async growForEver({ ms = 30 }) {
    for (const held = []; ; ) {
      held.push(Buffer.alloc(2 * 1_048_576, 1));
      if (ms > 0) await pause(ms);
    }
  },
  /** Holds so much memory until a file is there. */
  async holdMemory({ megabytes, until }, context) {
    const held = Buffer.alloc(megabytes * 1_048_576, 1);
    await begun(context);
    while (!existsSync(until)) await pause(20);
    return held.length;
  },
  /** Holds more and more, but less than so much, until a process is gone; and ends well. */
  async growUntilGone({ megabytes, pid }, context) {
    await begun(context);
    const held = [];
    for (; held.length < megabytes && existsSync(`/proc/${pid}/exe`); await pause(10))
      held.push(Buffer.alloc(1_048_576, 1));
    return held.length < megabytes ? "outlived" : "grown";
  },
  /** Writes what only its runner should write to a descriptor of its runner's. */
  async scribble({ fd, what }, context) {
    await begun(context);
    for (const text of GARBAGE[what]()) await writeAll(fd, text);
    return "scribbled";
  },
  /** Writes to every descriptor that its process has besides the usual three. */
  async scribbleEverywhere(_, context) {
    await begun(context);
    const open = readdirSync("/proc/self/fd").map(Number);
    for (const fd of open.filter((each) => each > 2)) {
      try {
        writeSync(fd, randomBytes(64));
      } catch {
        // One that cannot be written to.
      }
    }
    return "scribbled";
  },
  /** Closes descriptors of its process, as code does that makes a daemon of itself: this one, or all besides the usual three. */
  async closeDescriptors({ fd }, context) {
    await begun(context);
    const open = fd === undefined ? readdirSync("/proc/self/fd").map(Number) : [fd];
    for (const each of open.filter((each) => each > 2)) {
      try {
        closeSync(each);
      } catch {
        // The one through which the list was read is closed already.
      }
    }
    return "ok";
  },
  /** Returns more than its heap holds as text. What it returns itself takes little of that heap. */
  async giveMuch({ how }, context) {
    await begun(context);
    if (how === "String") return new String(longText());
    return how === "buffer" ? { bytes: Buffer.alloc(64 * 1_048_576) } : { text: longText() };
  },
  /** Throws more than its heap holds as text, or says it in its log. What it throws itself takes little of that heap. */
  async throwMuch({ how }, context) {
    await begun(context);
    if (how === "log") {
      context.log.info({}, longText());
      context.progress({ done: 1 }, longText());
      throw new Error("logged");
    }
    if (how === "message") throw new Error(longText());
    if (how === "cause") throw new Error("outer", { cause: new Error(longText()) });
    if (how === "stack") throw Object.assign(new Error("inner"), { stack: longText() });
    if (how === "name")
      throw Object.assign(new Error("inner"), { name: longText(), code: longText(), reason: longText() });
    if (how === "text") throw longText();
    if (how === "String") throw { text: new String(longText()) };
    if (how === "list") throw new Array(2 ** 28);
  },
  /** Makes a text that is larger than its heap, in one piece. */
  async fillAtOnce(_, context) {
    await begun(context);
    return JSON.stringify(longText()).length;
  },
  /** From now on its process can open no more files; and so it goes on for some beats. */
  async openNoMore(_, context) {
    await begun(context);
    execFileSync("prlimit", ["--pid", String(process.pid), "--nofile=3:"]);
    await pause(1_500);
    openSync("/dev/null");
  },
  async rejectUnawaited() {
    void Promise.reject(new Error("nobody awaits it"));
    await never();
  },
  /** Effect and completion in one transaction; then, if asked to, it dies before it returns. */
  async completeIn({ url, dies = false, commits = true }, context) {
    const client = new pg.Client(url);
    await client.connect();
    await client.query("begin");
    await context.claim.guard(client);
    await context.claim.completeIn(client, { done: true });
    if (commits) await client.query("commit");
    await pause(50);
    if (dies) process.exit(4);
    await client.end();
    return { done: true };
  },
};

const LATE = {
  timer: () => setTimeout(() => raise(new Error("late from a timer")), 20),
  promise: () => setTimeout(() => void Promise.reject(new Error("late from a promise")), 20),
};
function raise(error) {
  throw error;
}

export const tasks = Object.entries(HANDLERS).map(([name, run]) => defineTask({ name, run }));

export const double = defineBatchTask({
  name: "double",
  batchSize: 10,
  async run(items) {
    return items.map(({ input }) => (input.n < 0 ? new Error(`negative: ${input.n}`) : input.n * 2));
  },
});

/** One item ends the runner of all that are run with it. */
export const crowd = defineBatchTask({
  name: "crowd",
  batchSize: 10,
  async run(items) {
    await Promise.all(items.map(({ context }) => begun(context)));
    if (items.some(({ input }) => input.isPoison)) process.exit(1);
    return items.map(() => items.length);
  },
});

/** A runner in a process of its own, from its replica's side. */
import { type ChildProcess, spawn } from "node:child_process";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { builtFile } from "../package-files.ts";
import type { OpenChannel, RunnerExit } from "./channel.ts";
import { GUARDIAN_SHELL } from "./guardian.ts";
import { LineReader } from "./line-reader.ts";
import { NO_CHANNEL } from "./open-channel.ts";
import { passOn } from "./pass-on.ts";
import { GUARD_FD, HEART_FD, MESSAGES_FD, PRINTED_FDS } from "./pipes.ts";
import { HAS_GROUPS, ProcessGroup } from "./process-group.ts";
import { decodeSealed, encode } from "./protocol.ts";
import { runnerArguments } from "./runner-arguments.ts";

const LAST_WORDS_MS = 250;
/** The pipes of a process that ends close a moment before its end is known. One whose pipe has been closed for this long lives on without it. */
const END_FOLLOWS_MS = 500;

export const openProcess: OpenChannel = (listener, { heapLimitMb, leaseFd, seal, longestMessage }) => {
  const heap = heapLimitMb === undefined ? [] : [`--max-old-space-size=${heapLimitMb}`];
  const child = spawn(
    process.execPath,
    [...runnerArguments(process.execArgv), ...heap, builtFile("runner-entry/runner-process.js")],
    {
      // What it prints appears where its replica's own output does, by way of the replica.
      stdio: [
        ...(["ignore", "pipe", "pipe", "pipe", "pipe", leaseFd ?? "ignore"] as const),
        ...([GUARDIAN_SHELL ? "pipe" : "ignore", "pipe", "pipe"] as const),
      ],
      // A group of its own, and no terminal: Ctrl-C is for the replica, which stops its runners in good order.
      detached: HAS_GROUPS,
    },
  );
  if (child.pid === undefined) {
    // Where it has too many open files, Node gives it no pipes at all.
    for (const pipe of child.stdio ?? []) pipe?.destroy();
    child.once("error", ({ message }) => listener.onExit({ exitCode: null, signal: null, message }));
    return NO_CHANNEL;
  }
  const messages = child.stdio[MESSAGES_FD] as Duplex;
  const heart = child.stdio[HEART_FD] as Duplex;
  const group = new ProcessGroup(child, (child.stdio as readonly unknown[])[GUARD_FD] as Duplex | null);
  passOn([printedBy(child).stdout, child.stdout], "stdout");
  const stderrTail = passOn([printedBy(child).stderr, child.stderr], "stderr");
  let isGarbled = false;
  const onGarbled = (why: string) => {
    isGarbled = true;
    listener.onGarbled(why);
  };
  const hear = (pipe: Duplex, onUnsealed: () => void) => {
    const lines = new LineReader(longestMessage);
    pipe.setEncoding("utf8");
    pipe.on("data", (text: string) => {
      if (isGarbled) return;
      for (const line of lines.read(text)) {
        const message = decodeSealed(seal, line);
        if (message) listener.onMessage(message);
        else onUnsealed();
        if (isGarbled) return;
      }
      if (lines.isOverlong) onGarbled(`${WROTE}: a line of more than ${longestMessage} characters`);
    });
    // It is the exit that tells of the end; a pipe that breaks only comes before it.
    pipe.on("error", () => {});
  };
  // What a handler has written may have cut a message in two, such as an outcome: nobody can say, so the runner ends.
  hear(messages, () => onGarbled(`${WROTE}: a line that is not the runner's`));
  // Where a beat was cut in two, the next one comes soon.
  hear(heart, () => {});
  let closing: NodeJS.Timeout | undefined;
  messages.once("close", () => {
    // Its end may be known first, where this process was busy: then nothing is waited for.
    if (!isRunning(child)) return;
    // Its job would never end. Asked once more after what has come meanwhile was heard: this process may have stood still.
    closing = setTimeout(() => setImmediate(() => isRunning(child) && onGarbled(CLOSED)), END_FOLLOWS_MS);
  });
  let isOver = false;
  const report = (exit: RunnerExit) => {
    if (!isOver) listener.onExit(exit);
    isOver = true;
  };
  // Such as a signal that could not be sent. It is the exit that tells of the end.
  child.on("error", () => {});
  child.once("exit", (exitCode, signal) => {
    clearTimeout(closing);
    group.end();
    const exit = { exitCode, signal, message: undefined };
    // What it said last is still in the pipes; but a process that it left behind may keep one of them open for as long as that process lives.
    const waiting = setTimeout(() => {
      letGo(child);
      report(exit);
    }, LAST_WORDS_MS);
    child.once("close", () => {
      clearTimeout(waiting);
      report(exit);
    });
  });
  return {
    pid: child.pid,
    send(message) {
      if (messages.writable) messages.write(`${encode(message)}\n`);
    },
    terminate() {
      if (heart.writable) heart.write("\n");
      group.signal("SIGTERM");
    },
    kill: () => group.signal("SIGKILL"),
    stderrTail,
  };
};

const BETWEEN = "the pipe between the runner and its worker";
const WROTE = `a handler wrote into ${BETWEEN}`;
const CLOSED = `a handler closed ${BETWEEN}`;

/** What its handlers print, beside what the programs do that they start. */
function printedBy({ stdio }: ChildProcess): { stdout: Socket; stderr: Socket } {
  const pipes = stdio as readonly unknown[];
  return { stdout: pipes[PRINTED_FDS.stdout] as Socket, stderr: pipes[PRINTED_FDS.stderr] as Socket };
}

/** Nobody has to stay for these pipes. What the process that holds them prints still appears while this program lives. */
function letGo(child: ChildProcess): void {
  const own = printedBy(child);
  const printed: readonly unknown[] = [child.stdout, child.stderr, own.stdout, own.stderr];
  for (const pipe of child.stdio) {
    if (printed.includes(pipe)) (pipe as Socket | null)?.unref();
    else pipe?.destroy();
  }
}

function isRunning({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null;
}

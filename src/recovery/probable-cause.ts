/**
 * What a process probably died of. Pure: the first case of the table that fits, and one sentence for it. "Probably" and "likely"
 * stand where another cause would leave the same traces.
 */
import { formatDuration } from "../config/duration.ts";
import { type DeathEvidence, deployWords, evidenceLines, isDeploying, taskWords } from "./death-evidence.ts";
import { isAtItsLimit, wantOfMemory } from "./memory-outlook.ts";

export const CAUSES = [
  "stood-still",
  "cut-off",
  "loop-blocked",
  "fell-silent",
  "out-of-memory",
  "heap-out-of-memory",
  "native-crash",
  "aborted",
  "stopped-by-task",
  "shutdown-overrun",
  "killed",
  "terminated",
  "uncaught-error",
  "exited",
  "host-gone",
  "unreachable",
  "deploy",
  "process-ended",
  "vanished",
  "left",
  "unknown",
] as const;
export type Cause = (typeof CAUSES)[number];

export interface Conclusion {
  readonly cause: Cause;
  readonly sentence: string;
  readonly evidence: readonly string[];
}

export function probableCause(evidence: DeathEvidence): Conclusion {
  const found = CASES.find(({ fits }) => fits(evidence)) ?? UNKNOWN;
  return { cause: found.cause, sentence: found.sentence(evidence), evidence: evidenceLines(evidence) };
}

interface Case {
  readonly cause: Cause;
  readonly fits: (evidence: DeathEvidence) => boolean;
  readonly sentence: (evidence: DeathEvidence) => string;
}

/** In this order: what was seen before what is concluded, the special before the general. */
const CASES: readonly Case[] = [
  {
    cause: "stood-still",
    fits: ({ cameBack }) => cameBack?.how === "refused",
    sentence: ({ cameBack }) =>
      `The process was not dead: it had stood still (paused, suspended or starved of CPU), and was back ${away(cameBack)} later.`,
  },
  {
    cause: "cut-off",
    fits: ({ cameBack }) => cameBack?.how === "fenced",
    sentence: ({ cameBack }) =>
      `The process was not dead: it had been cut off from the database (or stood still), stopped its own work, and was back ${away(cameBack)} later.`,
  },
  {
    cause: "loop-blocked",
    fits: ({ because }) => because === "loop-blocked",
    sentence: ({ blockedForMs = 0, timedOut = [] }) =>
      `A handler blocked the event loop for ${formatDuration(blockedForMs)}${timedOut.length === 0 ? "" : `, past the timeout of task ${taskWords(timedOut)}`}, and the heart ended the process.`,
  },
  {
    cause: "heap-out-of-memory",
    fits: (evidence) =>
      saysHeap(evidence) || (isSignal(evidence, "SIGABRT") && evidence.heap !== undefined && isFull(evidence.heap)),
    sentence: (evidence) =>
      `${who(evidence)} ran out of JavaScript heap${heapLimit(evidence)}, and V8 ${evidence.isThread ? "ended" : "aborted"} it.`,
  },
  {
    cause: "exited",
    fits: ({ exitCall }) => exitCall !== undefined,
    sentence: ({ exitCall }) =>
      `Task ${exitCall?.taskId} (${exitCall?.name}) ended the process: it had ended before, and something that it had left behind called process.exit(${exitCall?.exitCode}).`,
  },
  {
    // Whatever signal ended it came from its own worker.
    cause: "fell-silent",
    fits: ({ because }) => because === "runner-silent",
    sentence: (evidence) =>
      `${who(evidence)} was not heard for ${formatDuration(evidence.silentForMs ?? 0)}, and its worker ended it: it stood still (stopped, starved of CPU, or held up in native code).`,
  },
  {
    cause: "out-of-memory",
    fits: (evidence) => isSignal(evidence, "SIGKILL") && wantOfMemory(evidence.memory, evidence.group) !== undefined,
    sentence: killedForMemory,
  },
  {
    cause: "native-crash",
    fits: (evidence) => nativeCrash(evidence) !== undefined,
    sentence: (evidence) =>
      `The process crashed in native code (${nativeCrash(evidence)}): an addon, a library or the runtime itself, not JavaScript.`,
  },
  {
    cause: "aborted",
    fits: (evidence) => abortSignal(evidence) !== undefined,
    sentence: (evidence) => `The process aborted itself (${abortSignal(evidence)})${whyItAborted(evidence)}.`,
  },
  {
    cause: "stopped-by-task",
    fits: ({ stoppers = [] }) => stoppers.length > 0,
    sentence: ({ stoppers = [] }) =>
      `${stoppers.length === 1 ? "A task" : "One of the tasks"} that it was running (${taskWords(stoppers)}) had told the process to stop, and it ended before it had left.`,
  },
  {
    cause: "shutdown-overrun",
    fits: ({ wasDraining }) => wasDraining === true,
    sentence: (evidence) =>
      `The process had been told to go, and was ended before its tasks were${isDeploying(evidence) ? `: ${deployWords(evidence)}` : ""}.`,
  },
  {
    cause: "killed",
    fits: (evidence) => isSignal(evidence, "SIGKILL"),
    sentence: ({ memory }) =>
      `The process was killed (SIGKILL)${memory ? ", though at its last beat the process itself was below its limit" : ""}: by an operator, a supervisor, the kernel or its own code. Nobody saw which.`,
  },
  {
    cause: "terminated",
    fits: ({ signal }) => signal !== undefined && signal !== null,
    sentence: ({ signal }) => `The process was ended by ${signal}, without having been able to leave.`,
  },
  {
    cause: "uncaught-error",
    fits: ({ exitCode, stderr }) => hasExitCode(exitCode) && (stderr ?? []).some(isErrorLine),
    sentence: ({ stderr, isThread }) =>
      `An error that nobody caught ended the ${isThread ? "thread" : "process"}: ${(stderr ?? []).find(isErrorLine)?.trim()}.`,
  },
  {
    // Node ends with this code after such an error, and so does whoever calls process.exit(1).
    cause: "exited",
    fits: ({ exitCode }) => exitCode === 1,
    sentence: (evidence) => `${who(evidence)} ended with exit code 1: an error that nobody caught, or process.exit(1).`,
  },
  {
    cause: "exited",
    fits: ({ exitCode }) => hasExitCode(exitCode),
    sentence: (evidence) =>
      `${who(evidence)} ended itself with exit code ${evidence.exitCode}, as by process.exit(${evidence.exitCode}).`,
  },
  {
    cause: "host-gone",
    fits: ({ neighbours }) => neighbours !== undefined && neighbours.there > 0 && neighbours.gone === neighbours.there,
    sentence: ({ neighbours }) =>
      neighbours?.there === 1
        ? "The other replica on the machine went at the same time: probably the whole machine did."
        : `All ${neighbours?.there} other replicas on the machine went at the same time: probably the whole machine did.`,
  },
  {
    cause: "out-of-memory",
    fits: (evidence) => hasGone(evidence) && wantOfMemory(evidence.memory, evidence.group) !== undefined,
    sentence: goneForMemory,
  },
  {
    cause: "unreachable",
    fits: ({ because, holdsSession }) => because === "silent" && holdsSession === true,
    sentence: () =>
      "The process fell silent with its database session still open: it stands still, or the network swallows its packets.",
  },
  {
    cause: "deploy",
    fits: (evidence) => hasGone(evidence) && isDeploying(evidence),
    sentence: (evidence) => `The process went in the middle of a deploy: ${deployWords(evidence)}.`,
  },
  {
    cause: "process-ended",
    fits: ({ because }) => because === "session-lost",
    sentence: () => "The process ended without a word, as by kill -9 or a crash; nobody saw how.",
  },
  {
    cause: "process-ended",
    fits: ({ because, holdsSession }) => because === "silent" && holdsSession === false,
    sentence: () =>
      "The process probably ended without a word, as by kill -9 or a crash: it fell silent, and its database session had ended. Nobody saw how.",
  },
  {
    cause: "vanished",
    fits: ({ because }) => because === "silent",
    sentence: () => "Nothing is heard of the process any more: its machine or its network is gone, or it is.",
  },
  {
    cause: "left",
    fits: ({ because }) => because === "offline",
    sentence: () => "The replica had left, and had not given its tasks back.",
  },
];

const UNKNOWN: Case = {
  cause: "unknown",
  fits: () => true,
  sentence: () => "What became of the process is not known.",
};

const TAKES_THE_LARGEST =
  " Of the processes that share a limit the kernel takes the largest, which need not be the one that grew.";
const NATIVE = ["SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"] as const;
/** V8 ends with the second where a list or a table becomes larger than it allows. */
const ABORTS = ["SIGABRT", "SIGTRAP"] as const;
/** What a shell makes of a signal: 128 and its number. */
const NUMBERS: Readonly<Record<string, number>> = {
  SIGILL: 4,
  SIGTRAP: 5,
  SIGABRT: 6,
  SIGBUS: 7,
  SIGFPE: 8,
  SIGKILL: 9,
  SIGSEGV: 11,
};
/** The exit codes that Windows gives to a process that crashed. */
const WINDOWS_CRASHES: Readonly<Record<number, string>> = {
  3221225477: "access violation",
  3221225501: "illegal instruction",
  3221225725: "stack overflow",
  3221226356: "heap corruption",
  3221226505: "stack buffer overrun",
};
const FULL = 0.9;

function isSignal({ signal, exitCode }: DeathEvidence, name: string): boolean {
  return signal === name || (!signal && exitCode === 128 + (NUMBERS[name] ?? Number.NaN));
}

function nativeCrash(evidence: DeathEvidence): string | undefined {
  return NATIVE.find((signal) => isSignal(evidence, signal)) ?? WINDOWS_CRASHES[evidence.exitCode ?? 0];
}

function abortSignal(evidence: DeathEvidence): string | undefined {
  return ABORTS.find((signal) => isSignal(evidence, signal));
}

/** An abort is rare, except where a thread fills its heap faster than Node can end it. */
function whyItAborted({ inThreads = [] }: DeathEvidence): string {
  if (inThreads.length === 0) return ": a failed assertion in native code, or no heap left";
  const whose =
    inThreads.length === 1
      ? `task ${taskWords(inThreads)}, which ran in a thread of it`
      : `one of the tasks that ran in threads of it (${taskWords(inThreads)})`;
  return `, probably because of ${whose}: a thread that fills its heap at once takes the whole process with it`;
}

function hasExitCode(exitCode: DeathEvidence["exitCode"]): exitCode is number {
  return exitCode !== undefined && exitCode !== null;
}

/** Nobody saw how, but it is gone and not merely unheard. */
function hasGone({ because, holdsSession }: DeathEvidence): boolean {
  switch (because) {
    case "session-lost":
    case "exited":
      return true;
    case "silent":
      return holdsSession !== true;
    // Whoever ended it saw how, or it is not known whether it has ended.
    case "runner-ended":
    case "runner-silent":
    case "stopped-by-task":
    case "loop-blocked":
    case "offline":
    case "missing":
    case "unknown":
      return false;
  }
}

function saysHeap({ stderr }: DeathEvidence): boolean {
  return (stderr ?? []).some((line) => /heap out of memory|Reached heap limit|Ineffective mark-compacts/.test(line));
}

function isErrorLine(line: string): boolean {
  return /^\s*(\w*Error|\[?Uncaught)\b.*:/.test(line);
}

function isFull({ used = 0, limit }: NonNullable<DeathEvidence["heap"]>): boolean {
  return limit > 0 && used >= FULL * limit;
}

function heapLimit({ heap }: DeathEvidence): string {
  return heap ? `, of which it may have ${Math.round(heap.limit / 1_048_576)} MiB` : "";
}

function who({ isThread }: DeathEvidence): string {
  return isThread ? "The thread" : "The process";
}

function killedForMemory(evidence: DeathEvidence): string {
  const { isCounted, isShared } = wantOfMemory(evidence.memory, evidence.group) ?? {};
  const why = isCounted
    ? "killed for its memory: SIGKILL, and the kernel counted a kill for want of memory in its cgroup at that time."
    : `probably killed for its memory: SIGKILL, with ${isShared ? groupShare(evidence) : memoryShare(evidence)}.`;
  return `The process was ${why}${isShared ? TAKES_THE_LARGEST : ""}`;
}

function goneForMemory(evidence: DeathEvidence): string {
  const isShared = wantOfMemory(evidence.memory, evidence.group)?.isShared === true;
  const share = isShared ? groupShare(evidence) : memoryShare(evidence);
  return `The process was probably killed for its memory: it ended without a word, with ${share}.${isShared ? TAKES_THE_LARGEST : ""}`;
}

function groupShare({ group }: DeathEvidence): string {
  const share = Math.round((100 * (group?.used ?? 0)) / (group?.limit ?? 1));
  return `its cgroup at ${share} % of the limit that all its processes share`;
}

function memoryShare({ memory }: DeathEvidence): string {
  if (!memory) return "its memory at the limit";
  const share = Math.round((100 * memory.rss) / memory.limit);
  return isAtItsLimit(memory)
    ? `its memory at ${share} % of the limit at its last beat`
    : `its memory at ${share} % of the limit at its last beat and growing fast`;
}

function away(cameBack: DeathEvidence["cameBack"]): string {
  return formatDuration(cameBack?.afterMs ?? 0);
}

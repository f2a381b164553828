/** What is known about a death, whoever found it, and the lines that people read. Whatever is not known is left out. Pure. */
import { clip } from "../clip.ts";
import { formatDuration } from "../config/duration.ts";
import { DEATH_REASONS, type DeathReason, type ExitCall, type GroupMemory } from "../task/death.ts";
import { innermostFrames } from "../task/stack-frames.ts";
import { counted } from "./explain-words.ts";
import { BLOCKED_FROM_MS } from "./limits.ts";
import { type Memory, memoryWords } from "./memory-outlook.ts";

export interface DeathEvidence {
  readonly kind: "replica" | "runner";
  /** Of a runner: it was a thread, and its process lives on. */
  readonly isThread?: boolean | undefined;
  readonly because: DeathReason;
  /** How its process ended, where somebody saw it. */
  readonly exitCode?: number | null | undefined;
  readonly signal?: string | null | undefined;
  /** The last lines that it wrote to standard error. */
  readonly stderr?: readonly string[] | undefined;
  /** It had been told to go. */
  readonly wasDraining?: boolean | undefined;
  readonly silentForMs?: number | undefined;
  readonly livedForMs?: number | undefined;
  /** Its database session was still open when it was declared dead; undefined where it had none whose end would have been seen. */
  readonly holdsSession?: boolean | undefined;
  readonly memory?: Memory | undefined;
  /** The memory of all processes that share a limit with it, just before its end, and how many of them the kernel killed at that time. */
  readonly group?: GroupMemory | undefined;
  /** Against what V8 allows, where that is known; how much of it was used, where a beat has told. */
  readonly heap?: { readonly used: number | undefined; readonly limit: number } | undefined;
  readonly loopP99Ms?: number | undefined;
  readonly blockedForMs?: number | undefined;
  /** The JavaScript stack in which its loop was blocked. */
  readonly stack?: string | undefined;
  /** Of a loop that was blocked past the timeout of some of its tasks: those. */
  readonly timedOut?: readonly NamedTask[] | undefined;
  /** What the task said last, where there is one. */
  readonly phase?: string | undefined;
  readonly log?: readonly string[] | undefined;
  readonly running?: number | undefined;
  /** Of a runner that was killed for memory which others share: how many tasks ran elsewhere in its worker. */
  readonly inWorker?: number | undefined;
  /** Of a replica: some of the tasks that it was running in threads, which share its process. */
  readonly inThreads?: readonly NamedTask[] | undefined;
  /** Of those that it was running: some that had told it to stop. */
  readonly stoppers?: readonly NamedTask[] | undefined;
  /** A task that had ended, or what it had left behind, ended the process. */
  readonly exitCall?: ExitCall | undefined;
  /** Of a runner: how many tasks it had run before, and the last of them. */
  readonly before?: { readonly count: number; readonly last: readonly string[] } | undefined;
  /** Replicas of the same machine that were there, and those of them that went at the same time. */
  readonly neighbours?: { readonly there: number; readonly gone: number } | undefined;
  /** Others with tasks or queues of its own that were leaving or had just left at that time, and another version that was just started. */
  readonly deploy?:
    | { readonly leaving: number; readonly left: number; readonly newVersion: string | undefined }
    | undefined;
  /** It was not dead: how long after its death it was here again, and whether it had stopped its own work first. */
  readonly cameBack?: { readonly afterMs: number; readonly how: "fenced" | "refused" } | undefined;
}

interface NamedTask {
  readonly id: string;
  readonly name: string;
}

const MOST_LINES = 10;
const LONGEST_LINE = 200;

export function evidenceLines(evidence: DeathEvidence): string[] {
  const {
    silentForMs,
    livedForMs,
    memory,
    heap,
    blockedForMs = 0,
    loopP99Ms,
    running,
    phase,
    neighbours,
    inThreads = [],
    stoppers = [],
  } = evidence;
  const lines: string[] = [endWords(evidence)];
  if (silentForMs !== undefined) lines.push(`silent for ${formatDuration(silentForMs)} when it was declared dead`);
  if (evidence.holdsSession !== undefined && evidence.because !== "exited")
    lines.push(evidence.holdsSession ? "its database session was still open" : "its database session had ended");
  if (livedForMs !== undefined) lines.push(`it had lived for ${formatDuration(livedForMs)}`);
  if (memory) lines.push(memoryWords(memory));
  if (evidence.group) lines.push(...groupLines(evidence.group));
  if (heap) lines.push(heapWords(heap));
  if (blockedForMs >= BLOCKED_FROM_MS) lines.push(`its event loop had not turned for ${formatDuration(blockedForMs)}`);
  else if (loopP99Ms !== undefined) lines.push(`its event loop turned: delay p99 ${Math.round(loopP99Ms)} ms`);
  if (running !== undefined) lines.push(`it was running ${counted(running, "task")}`);
  if (inThreads.length > 0)
    lines.push(`in ${inThreads.length === 1 ? "a thread" : "threads"} of it ran: ${taskWords(inThreads)}`);
  lines.push(...companyLines(evidence));
  if (phase !== undefined) lines.push(`last phase: ${phase}`);
  if (neighbours && neighbours.there > 0)
    lines.push(
      `of ${counted(neighbours.there, "other replica")} on its machine ${neighbours.gone} went at the same time`,
    );
  if (isDeploying(evidence)) lines.push(`a deploy was under way: ${deployWords(evidence)}`);
  if (evidence.exitCall) lines.push("nobody is charged with its end: what called process.exit() was running no more");
  if (stoppers.length > 0) lines.push(`it was leaving because of its own: ${taskWords(stoppers)}`);
  else if (evidence.wasDraining) lines.push("it had been told to go, and was draining");
  if (evidence.cameBack) lines.push(backWords(evidence.cameBack));
  lines.push(...stackLines(evidence));
  lines.push(...block("last lines of the task's log", evidence.log));
  lines.push(...block("last lines of standard error", evidence.stderr?.filter(isForPeople)));
  return lines;
}

export function isDeploying({ deploy }: DeathEvidence): boolean {
  return deploy !== undefined && (deploy.leaving > 0 || deploy.left > 0 || deploy.newVersion !== undefined);
}

export function deployWords({ deploy }: DeathEvidence): string {
  const { leaving = 0, left = 0, newVersion } = deploy ?? {};
  const parts: string[] = [];
  if (leaving > 0) parts.push(`${counted(leaving, "other replica was", "other replicas were")} leaving`);
  if (left > 0) parts.push(`${counted(left, "other replica")} had just left`);
  if (newVersion !== undefined) parts.push(`version ${newVersion} had just been started`);
  return parts.join(", ");
}

export function taskWords(tasks: readonly NamedTask[]): string {
  return tasks.map(({ id, name }) => `${id} (${name})`).join(", ");
}

export function backWords({ afterMs, how }: NonNullable<DeathEvidence["cameBack"]>): string {
  const did = how === "fenced" ? "having stopped its own work first" : "and was told so when it wanted to beat";
  return `it was here again ${formatDuration(afterMs)} after it had been declared dead, ${did}`;
}

function endWords({ because, signal, exitCode, isThread }: DeathEvidence): string {
  if (isThread && exitCode === null) return "its thread could not be ended, and was left to itself";
  if (isThread && exitCode !== undefined) return `its thread ended with exit code ${exitCode}`;
  if (signal) return `its process was ended by ${signal}`;
  if (exitCode !== undefined && exitCode !== null) return `its process ended with exit code ${exitCode}`;
  return DEATH_REASONS[because].words;
}

function groupLines({ used, limit, kills, grewMost }: NonNullable<DeathEvidence["group"]>): string[] {
  const share = Math.round((100 * used) / limit);
  const killed = `the kernel counted ${counted(kills, "kill")} for want of memory in its cgroup at that time`;
  const lines = [`its cgroup: ${mib(used)} of ${mib(limit)} MiB (${share} %), of all its processes together`];
  const grew = "of what its cgroup took in the last moments, most was its own";
  return [...lines, ...(kills > 0 ? [killed] : []), ...(grewMost ? [grew] : [])];
}

function heapWords({ used, limit }: NonNullable<DeathEvidence["heap"]>): string {
  if (used === undefined) return `heap: at most ${mib(limit)} MiB`;
  return `heap: ${mib(used)} of ${mib(limit)} MiB at its last beat`;
}

/** Of a runner that several tasks may have ended. */
function companyLines({ kind, running = 0, inWorker = 0, before }: DeathEvidence): string[] {
  const isUsed = before !== undefined && before.count > 0;
  if (kind !== "runner" || (running + inWorker <= 1 && !isUsed)) return [];
  const others =
    inWorker > 0 ? [`beside it, its worker ran ${counted(inWorker, "other task")} within the same limit`] : [];
  const earlier = isUsed
    ? block(`it had run ${counted(before.count, "task")} before, which may have left something behind; the last`, [
        ...before.last.slice(0, MOST_LINES),
      ])
    : [];
  return [...earlier, ...others, "nobody is charged with its end: each of these tasks is a suspect"];
}

/** The frames of Node's own machine code, with which it ends, would leave no room for what it said before. */
function isForPeople(line: string): boolean {
  return !/^\s*\d+: 0x[0-9a-f]+ |^-+ (Native|JavaScript|JS) stack ?trace -+$/i.test(line);
}

function stackLines({ stack, isThread }: DeathEvidence): string[] {
  if (stack === undefined) return [];
  return [
    `last stack of its ${isThread ? "thread" : "main thread"}:`,
    ...innermostFrames(stack, MOST_LINES).map(indented),
  ];
}

function block(title: string, lines: readonly string[] | undefined): string[] {
  if (!lines || lines.length === 0) return [];
  return [`${title}:`, ...lines.slice(-MOST_LINES).map(indented)];
}

function indented(line: string): string {
  return `    ${clip(line, LONGEST_LINE, "…")}`;
}

function mib(bytes: number): number {
  return Math.round(bytes / 1_048_576);
}

/** A death of every kind, as it would be found. */
import type { DeathEvidence } from "../../src/recovery/death-evidence.ts";
import type { Cause } from "../../src/recovery/probable-cause.ts";

const GIB = 1_073_741_824;
const memory = (share: number, growthPerSecond = 0) => ({
  rss: share * GIB,
  limit: GIB,
  agoMs: 1_500,
  growthPerSecond,
});
const seen: DeathEvidence = {
  ...{ kind: "replica", because: "session-lost", silentForMs: 1_400, livedForMs: 3_600_000, holdsSession: false },
  ...{ memory: memory(0.3), loopP99Ms: 12, blockedForMs: 0, running: 4 },
  neighbours: { there: 0, gone: 0 },
  deploy: { leaving: 0, left: 0, newVersion: undefined },
};
const exited = (given: Partial<DeathEvidence>): DeathEvidence => ({
  ...{ ...seen, because: "exited", silentForMs: undefined, holdsSession: undefined },
  ...given,
});

export const DEATHS: readonly [what: string, cause: Cause, evidence: DeathEvidence][] = [
  ["a process that ended, and nobody saw how", "process-ended", seen],
  ["kill -9, with memory left", "killed", exited({ signal: "SIGKILL" })],
  ["kill -9, as a shell reports it", "killed", exited({ exitCode: 137 })],
  ["kill -9, at the limit of its memory", "out-of-memory", exited({ signal: "SIGKILL", memory: memory(0.97) })],
  ["kill -9, while its memory grew fast", "out-of-memory", exited({ signal: "SIGKILL", memory: memory(0.6, GIB / 2) })],
  ["a process that ended at the limit of its memory", "out-of-memory", { ...seen, memory: memory(0.95) }],
  [
    "no heap left, as V8 says",
    "heap-out-of-memory",
    exited({
      signal: "SIGABRT",
      stderr: [
        "<--- Last few GCs --->",
        "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
      ],
    }),
  ],
  [
    "no heap left, as its last beat says",
    "heap-out-of-memory",
    exited({ exitCode: 134, heap: { used: 0.95 * GIB, limit: GIB } }),
  ],
  ["an abort", "aborted", exited({ signal: "SIGABRT" })],
  ["an abort, as a shell reports it", "aborted", exited({ exitCode: 134 })],
  ["a list larger than V8 allows", "aborted", exited({ signal: "SIGTRAP" })],
  ["the same, as a shell reports it", "aborted", exited({ exitCode: 133 })],
  [
    "an abort while a task ran in a thread",
    "aborted",
    exited({ signal: "SIGABRT", inThreads: [{ id: "task-1", name: "resize" }] }),
  ],
  [
    "an abort while several tasks ran in threads",
    "aborted",
    exited({ exitCode: 133, inThreads: ["task-1", "task-2"].map((id) => ({ id, name: "resize" })) }),
  ],
  [
    "an end that nobody saw while a task ran in a thread",
    "process-ended",
    { ...seen, inThreads: [{ id: "task-1", name: "resize" }] },
  ],
  ["a segmentation fault", "native-crash", exited({ signal: "SIGSEGV" })],
  ["a segmentation fault, as a shell reports it", "native-crash", exited({ exitCode: 139 })],
  ["an access violation, as Windows reports it", "native-crash", exited({ exitCode: 0xc000_0005 })],
  ["process.exit(3)", "exited", exited({ exitCode: 3 })],
  ["process.exit(0)", "exited", exited({ exitCode: 0 })],
  [
    "an error that nobody caught",
    "uncaught-error",
    exited({ exitCode: 1, stderr: ["    at run (file.js:3:9)", "TypeError: resize is not a function"] }),
  ],
  ["exit code 1 without a word", "exited", exited({ exitCode: 1, stderr: ["work begun"] })],
  ["SIGTERM without an answer to it", "terminated", exited({ signal: "SIGTERM" })],
  [
    "a blocked loop",
    "loop-blocked",
    {
      ...{ ...seen, because: "loop-blocked", blockedForMs: 30_000, phase: "resizing" },
      ...{ stack: "resize (/app/resize.js:12:5)\nrun (/app/tasks.js:3:1)", log: ["image 7 of 9"] },
    },
  ],
  [
    "the end of a worker that was told to stop by its own task",
    "stopped-by-task",
    exited({ exitCode: 0, wasDraining: true, stoppers: [{ id: "task-1", name: "resize" }] }),
  ],
  ["a shutdown that took too long", "shutdown-overrun", exited({ signal: "SIGKILL", wasDraining: true })],
  [
    "a shutdown in a deploy that took too long",
    "shutdown-overrun",
    { ...seen, wasDraining: true, deploy: { leaving: 2, left: 0, newVersion: "2.0.0" } },
  ],
  [
    "the end of a machine",
    "host-gone",
    { ...seen, because: "silent", silentForMs: 15_200, neighbours: { there: 3, gone: 3 } },
  ],
  ["the end of a neighbour as well", "host-gone", { ...seen, neighbours: { there: 1, gone: 1 } }],
  ["the end of one process of several", "process-ended", { ...seen, neighbours: { there: 3, gone: 1 } }],
  ["a deploy", "deploy", { ...seen, deploy: { leaving: 1, left: 0, newVersion: "2.0.0" } }],
  ["a deploy, a part of which is done", "deploy", { ...seen, deploy: { leaving: 2, left: 1, newVersion: undefined } }],
  [
    "the end at the limit of its memory, in a deploy",
    "out-of-memory",
    { ...seen, memory: memory(0.95), deploy: { leaving: 2, left: 1, newVersion: "2.0.0" } },
  ],
  [
    "swallowed packets, or a process that stands still",
    "unreachable",
    { ...seen, because: "silent", silentForMs: 15_200, holdsSession: true },
  ],
  [
    "a silence without a session",
    "vanished",
    { ...seen, because: "silent", silentForMs: 15_200, holdsSession: undefined },
  ],
  ["a silence after a session that had ended", "process-ended", { ...seen, because: "silent", silentForMs: 15_200 }],
  [
    "a runner that stood still until its worker killed it, whatever its memory",
    "fell-silent",
    {
      ...{ kind: "runner", because: "runner-silent", signal: "SIGKILL", exitCode: null, silentForMs: 15_200 },
      memory: memory(0.97),
    },
  ],
  [
    "a thread of that kind",
    "fell-silent",
    { kind: "runner", isThread: true, because: "runner-silent", exitCode: 1, silentForMs: 15_200 },
  ],
  [
    "a pause that was over too late",
    "stood-still",
    { ...seen, because: "silent", silentForMs: 15_200, cameBack: { afterMs: 8_000, how: "refused" } },
  ],
  ["a cut that was over too late", "cut-off", { ...seen, cameBack: { afterMs: 8_000, how: "fenced" } }],
  ["a replica that had left", "left", { kind: "replica", because: "offline" }],
  ["a replica that nobody knows", "unknown", { kind: "replica", because: "missing" }],
];

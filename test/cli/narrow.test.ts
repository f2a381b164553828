/** Tables for people are read at 80 columns: nothing is wider, however long names and messages are, and no id is cut. */
import { beforeAll, expect, test, vi } from "vitest";
import { widthOf } from "../../src/cli/text-width.ts";
import { writePostMortems } from "../../src/sql/post-mortems.ts";
import { registerReplica } from "../../src/sql/replicas.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { type ClaimId, newReplicaId, type TaskId } from "../../src/task/ids.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { everbeat as cli } from "./run-cli.ts";
import { everbeatHere as here } from "./run-here.ts";

vi.setConfig({ testTimeout: 60_000 });

/** The worker leaves what is stale as it is, for the commands to find. */
const { everbeat, database } = await openTestEverbeat({
  recovery: { autoFailStaleRunning: false, autoRequeueStaleClaimed: false },
});
const piped = { database: database.url, env: { COLUMNS: undefined } };

const HOST = "ip-10-0-12-34.eu-west-1.compute.internal.example.com";
const QUEUE = "tenant-0001/customers-in-europe/mail-with-a-low-priority";
const LONGEST_QUEUE = `q/${"0123456789".repeat(12)}`;
const MESSAGE =
  "発送できませんでした: 在庫がありません 📦📦 — the warehouse did not answer in time, and said nothing about why it did not; " +
  `asked for https://warehouse.example.com/${"orders/".repeat(20)}7`;
const fail = defineTask({
  name: "billing/make-the-monthly-invoices-of-every-customer",
  queue: "billing",
  retry: { attempts: 1 },
  run: async () => {
    throw new Error(MESSAGE);
  },
});
const hold = defineTask({
  name: "import-orders",
  run: (_input: unknown, { signal }) => new Promise((end) => signal.addEventListener("abort", end)),
});
const byHand = defineTask({ name: "warehouse/by-hand-and-with-a-long-name", queue: QUEUE, run: async () => {} });
const later = defineTask({ name: "send-mail", queue: LONGEST_QUEUE, run: async () => {} });

const ids = { failed: [] as string[], running: "", later: "", stale: "", claimed: "", review: "", poisoned: "" };
const replicas: string[] = [];
const owner = handClaimer(everbeat.database, [byHand.name]);

beforeAll(async () => {
  const worker = await everbeat.work([fail, hold], { handleSignals: false, queues: ["billing", "default"] });
  ids.failed = await everbeat.enqueueMany(fail, Array(30).fill(undefined));
  ids.running = await everbeat.enqueue(hold, undefined, { exclusiveKey: "🛒 ".repeat(40) });
  ids.later = await everbeat.enqueue(later, undefined, { delay: "3d" });
  await everbeat.queues.pause(QUEUE);
  await everbeat.queues.set("billing", { concurrency: 20, rateLimit: { limit: 1_000, per: "1m" } });
  await everbeat.queues.resume(QUEUE);
  await dieByHand();
  await fillTheFleet();
  for (const id of ids.failed) await everbeat.result(id as TaskId).catch(() => {});
  await eventually(async () => (await everbeat.tasks.show(ids.running)).state === "running");
  replicas.push(worker.replicaId, owner.replicaId);
});

/** Tasks of an owner that died: two that are stale, one to review, one in quarantine, with what it all left on record. */
async function dieByHand(): Promise<void> {
  const put = () => everbeat.enqueue(byHand, undefined);
  [ids.stale, ids.claimed, ids.review, ids.poisoned] = [await put(), await put(), await put(), await put()];
  const claimed = new Map((await owner.claim()).map((task) => [task.taskId as string, task.claimId]));
  const { replicaId: replica } = owner;
  const ended = (id: string, code: string) => ({
    ...({ claim: claimed.get(id) as ClaimId, task: id as TaskId, replica, to: "failed", outcome: "failed" } as const),
    error: { code, message: MESSAGE },
  });
  await owner.end([ended(ids.review, "WORKER_CRASHED"), ended(ids.poisoned, "POISONED")]);
  await everbeat.recovery.review.done([ids.review as TaskId], { note: MESSAGE });
  const told = { cause: "process-ended", sentence: MESSAGE, evidence: [MESSAGE, `    at ${MESSAGE}`], hostname: HOST };
  const [taskId, claimId] = [ids.poisoned as TaskId, claimed.get(ids.poisoned) as ClaimId];
  await writePostMortems(everbeat.database, [
    { ...told, kind: "replica", replicaId: replica },
    { ...told, kind: "attempt", replicaId: replica, taskId, claimId, name: byHand.name },
  ]);
}

/** Many more replicas, on a machine that flaps, and an alert. */
async function fillTheFleet(): Promise<void> {
  const tasks = Array.from({ length: 30 }, (_, n) => `accounts/task-number-${n}`);
  for (let n = 0; n < 5; n++) {
    const id = newReplicaId();
    replicas.push(id);
    await registerReplica(everbeat.database, {
      ...{ id, machineId: `by-hand/${HOST}`, hostname: HOST, pid: 4_000_000 + n, version: "12.34.56-next.7" },
      ...{ tasks, queues: [QUEUE, "default"], recovery: null },
      promise: { intervalMs: 60_000, promiseMs: 600_000, sessionPromiseMs: 600_000 },
    });
  }
  const s = everbeat.database.schema;
  await database.query(`update ${s}.replica set hostname = $1, status = 'dead', died_at = now() where id = $2`, [
    ...[HOST, owner.replicaId],
  ]);
  await database.query(`insert into ${s}.alert (kind, subject, message) values ('mass-death', 'x', $1)`, [MESSAGE]);
  await database.query(
    `insert into ${s}.unrest (kind, machine_id, hostname, replica_id)
     select 'dead', m.id, m.hostname, gen_random_uuid() from ${s}.machine m, generate_series(1, 20)`,
  );
}

/** Each command, with the ids and names that a person copies from it. */
const CALLS: readonly [string[], () => readonly string[]][] = [
  [["replicas"], () => replicas],
  [["machines"], () => [HOST]],
  [["tasks", "list"], () => [...ids.failed, ids.running, ids.later, ids.stale]],
  [["tasks", "review", "--all"], () => [ids.review]],
  [["tasks", "quarantined"], () => [ids.poisoned]],
  [["status"], () => [...replicas, QUEUE]],
  [["queues"], () => [QUEUE, "billing", "default"]],
  [["queues", "pause", QUEUE], () => [QUEUE]],
  [["stale", "--after", "0s"], () => [ids.stale, ids.claimed, owner.replicaId]],
  [["recover", "--dry-run", "--after", "0s"], () => [ids.stale, ids.claimed, owner.replicaId]],
  [["recover"], () => []],
  [["post-mortems"], () => [ids.poisoned, owner.replicaId]],
  [["doctor"], () => []],
];

const OF_ONE: readonly [string[], keyof typeof ids][] = [
  [["explain"], "running"],
  [["explain"], "stale"],
  [["explain"], "poisoned"],
  [["explain"], "later"],
  [["post-mortem"], "poisoned"],
  [["tasks", "cancel"], "poisoned"],
  [["tasks", "retry"], "running"],
];

async function assertNarrow(words: readonly string[], whole: readonly string[]): Promise<void> {
  const { stdout } = await cli(words, piped);
  const lines = stdout.split("\n");
  expect(lines.filter((line) => widthOf(line) > 80)).toEqual([]);
  expect(lines.filter((line) => line !== line.trimEnd())).toEqual([]);
  for (const name of whole) expect(stdout).toContain(name);
}

test.each(CALLS)("%j fits into 80 columns, and its ids are whole", async (words, whole) => {
  await assertNarrow(words, whole());
});

test.each(OF_ONE)("%j of a task that is %s fits into 80 columns, and its id is whole", async (words, which) => {
  await assertNarrow([...words, ids[which] as string], [ids[which] as string]);
});

test("a table is as wide as COLUMNS says where there is no terminal, and then has a line for each row", async () => {
  const { stdout } = await here(["tasks", "list"], { database: database.url, env: { COLUMNS: "400" } });
  for (const id of ids.failed) expect(stdout).toMatch(new RegExp(`^${id} .*warehouse did not answer`, "m"));
  const narrow = await here(["tasks", "list"], { database: database.url, env: { COLUMNS: "nonsense" } });
  expect(narrow.stdout.split("\n").filter((line) => widthOf(line) > 80)).toEqual([]);
});

test("the attempts of a task fit into 80 columns", async () => {
  const { stdout } = await cli(["tasks", "show", ids.failed[0] as string], piped);
  const [, attempts = ""] = /^Attempts\n((?: .*\n)+)/m.exec(stdout) ?? [];
  expect(attempts).toContain(replicas.at(-2));
  expect(attempts.split("\n").filter((line) => widthOf(line) > 80)).toEqual([]);
});

test("what a task says of itself fits into 80 columns: its state, progress, error and last log lines", async () => {
  const words = `${"a long story ".repeat(12)}and its end`;
  const told = defineTask({
    name: "story",
    retry: { attempts: 1 },
    async run(_input: unknown, { phase, log }) {
      await phase("telling", { words });
      log.info({}, words);
      throw new Error(words);
    },
  });
  await everbeat.work([told], { handleSignals: false, queues: ["stories"] });
  const id = await everbeat.enqueue(told, undefined, { queue: "stories" });
  await everbeat.result(id).catch(() => {});
  const cancelled = await everbeat.enqueue(told, undefined, { queue: "nobody-works-here" });
  await everbeat.tasks.cancel(cancelled, { reason: words });
  const { stdout } = await here(["tasks", "show", id], piped);
  expect(stdout).toMatch(/^progress +telling/m);
  expect(stdout).toMatch(/^error +TASK_FAILED: a long/m);
  expect(stdout).toMatch(/^Last log lines\n.* info a long/m);
  const lines = `${stdout}${(await here(["tasks", "show", cancelled], piped)).stdout}`.split("\n");
  // The stack is quoted as it is.
  expect(lines.filter((line) => !line.startsWith("  │") && widthOf(line) > 80)).toEqual([]);
  expect(
    lines
      .join(" ")
      .replace(/ +/g, " ")
      .match(/and its end/g)?.length,
  ).toBeGreaterThanOrEqual(5);
});

test("a name that is longer than the line is laid out over several", async () => {
  const { stdout } = await cli(["queues"], piped);
  expect(stdout.replace(/\n */g, "")).toContain(LONGEST_QUEUE);
});

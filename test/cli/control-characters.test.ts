/** Users' text on the operator's terminal: it is shown, and never commands the terminal nor looks like a line of ours. */
import type { Command } from "commander";
import { beforeAll, expect, test, vi } from "vitest";
import { createProgram } from "../../src/cli/program.ts";
import { createScreen } from "../../src/cli/screen.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { writePostMortems } from "../../src/sql/post-mortems.ts";
import { defineTask } from "../../src/task/define-task.ts";
import type { ClaimId, ReplicaId, TaskId } from "../../src/task/ids.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { commandsToTerminal, withoutColours } from "./printed.ts";
import { everbeat as cli, projectWith, startEverbeat } from "./run-cli.ts";
import { everbeatHere, printedDuring } from "./run-here.ts";

vi.setConfig({ testTimeout: 30_000 });

/** Clears the screen, sets the title, colours and hides what follows, turns the line around, and begins lines of its own. */
const EVIL = "evil\x1b[2J\x1b]0;title\x07\x1b[35m\x1b[8m\b\x7f\x9b31m\u2028\u202egnp\u2066\t\rFORGED\nFORGED\r\nFORGED";

const { everbeat, database } = await openTestEverbeat();
const at = { database: database.url, env: { FORCE_COLOR: "1" } };

const evilError = () => {
  const error = Object.assign(new Error(EVIL, { cause: new Error(EVIL) }), { code: EVIL, name: EVIL });
  error.stack = `${EVIL}\n    at ${EVIL} (file.js:1:1)\n    at last (file.js:2:2)`;
  return error;
};
const fail = defineTask({
  name: "fail",
  retry: { attempts: 2, delay: 0 },
  async run(_input: unknown, { log, phase, progress }) {
    log.warn({ [EVIL]: EVIL }, EVIL);
    await phase(EVIL, { [EVIL]: EVIL });
    progress(0.5, EVIL);
    throw evilError();
  },
});
const hold = defineTask({
  name: "hold",
  async run(_input: unknown, { log, phase, progress, signal }) {
    log.warn({ [EVIL]: EVIL }, EVIL);
    await phase(EVIL, { [EVIL]: EVIL });
    progress({ done: 1, total: 2 }, EVIL);
    await new Promise((end) => signal.addEventListener("abort", end));
  },
});
const echo = defineTask({ name: "echo", run: async (input: unknown) => input });
const byHand = defineTask({ name: "by-hand", run: async () => {} });
const waiting = defineTask({ name: "waiting", queue: "nobody", run: async (_input: unknown) => {} });

const keys = { uniqueKey: EVIL, exclusiveKey: EVIL, metadata: { [EVIL]: EVIL } };
const ids = { failed: "", running: "", completed: "", cancelled: "", stale: "", review: "", poisoned: "", waiting: "" };
const owner = handClaimer(everbeat.database, ["by-hand"]);

beforeAll(async () => {
  const worker = await everbeat.work([fail, hold, echo], { handleSignals: false, queues: ["default"] });
  ids.failed = await everbeat.enqueue(fail, { [EVIL]: EVIL }, { metadata: { [EVIL]: EVIL }, uniqueKey: EVIL });
  ids.running = await everbeat.enqueue(hold, EVIL, keys);
  ids.completed = await everbeat.enqueue(echo, { [EVIL]: EVIL });
  ids.waiting = await everbeat.enqueue(waiting, EVIL, { ...keys, rateLimit: { key: EVIL, limit: 1, per: "1h" } });
  ids.cancelled = await everbeat.enqueue(waiting, EVIL);
  await everbeat.tasks.cancel([ids.cancelled], { reason: EVIL });
  await everbeat.result(ids.failed as TaskId).catch(() => {});
  await everbeat.result(ids.completed as TaskId);
  await eventually(async () => (await everbeat.tasks.show(ids.running)).attempts[0]?.progress?.note === EVIL);
  await dieByHand();
  await makeFieldsEvil(worker.replicaId);
});

/** Deaths, a refused outcome and a review, as a reaper would write them. */
async function dieByHand(): Promise<void> {
  const put = () => everbeat.enqueue(byHand, undefined);
  [ids.stale, ids.review, ids.poisoned] = [await put(), await put(), await put()];
  const claimed = new Map((await owner.claim()).map((task) => [task.taskId as string, task.claimId]));
  const { replicaId: replica } = owner;
  const outcomeOf = (task: string, code: string) => ({
    ...({
      claim: claimed.get(task) as ClaimId,
      task: task as TaskId,
      replica,
      to: "failed",
      outcome: "failed",
    } as const),
    error: { code, message: EVIL, stack: EVIL },
  });
  await owner.end([outcomeOf(ids.review, "WORKER_CRASHED"), outcomeOf(ids.poisoned, "POISONED")]);
  await owner.end([outcomeOf(ids.poisoned, EVIL)]);
  await everbeat.recovery.review.done([ids.review as TaskId], { note: EVIL });
  const told = { cause: EVIL, sentence: EVIL, evidence: [EVIL, ` ${EVIL}`], hostname: EVIL };
  const [taskId, claimId] = [ids.poisoned as TaskId, claimed.get(ids.poisoned) as ClaimId];
  await writePostMortems(everbeat.database, [
    { ...told, kind: "replica", replicaId: replica },
    { ...told, kind: "attempt", replicaId: replica, taskId, claimId, name: EVIL },
  ]);
}

/** What comes from the surroundings: host names, versions, alerts, the stack of a blocked thread. */
async function makeFieldsEvil(replica: ReplicaId): Promise<void> {
  const s = everbeat.database.schema;
  await database.query(`update ${s}.replica set hostname = $1, version = $1, tasks = array[$1], queues = array[$1]`, [
    EVIL,
  ]);
  await database.query(`update ${s}.machine set hostname = $1`, [EVIL]);
  await database.query(`update ${s}.replica set status = 'dead', died_at = now() where id = $1`, [owner.replicaId]);
  await database.query(`insert into ${s}.queue (name, rate_limit, rate_per_ms) values ($1, 1, 1000)`, [EVIL]);
  await database.query(`insert into ${s}.alert (kind, subject, message) values ($1, $1, $1)`, [EVIL]);
  await database.query(
    `insert into ${s}.unrest (kind, machine_id, hostname, replica_id)
     select 'dead', m.id, $1, gen_random_uuid() from ${s}.machine m, generate_series(1, 20)`,
    [EVIL],
  );
  await database.query(
    `insert into ${s}.blocked_loop (replica_id, began_at, seen_at, blocked_ms, stack, tasks)
     values ($1, now() - interval '1 minute', now(), 60000, $2, json_build_array(json_build_object('taskId', $3::text, 'name', $2::text)))`,
    [replica, EVIL, ids.running],
  );
  await database.query(`update ${s}.task set name = $1 where id = $2`, [EVIL, ids.completed]);
}

/** How each command is called so that it shows as much as it can; null where its own test looks at what it prints. */
const CALLS: Record<string, (() => string[][]) | null> = {
  demo: null,
  dev: null,
  start: null,
  enqueue: () => [
    ["enqueue", EVIL],
    ["enqueue", "waiting", JSON.stringify(EVIL), "--unique-key", EVIL, "--exclusive-key", EVIL],
    ["enqueue", "waiting", "null", "--queue", EVIL],
    ["enqueue", "waiting", EVIL],
    ["enqueue", "echo", JSON.stringify({ [EVIL]: EVIL }), "--wait"],
    ["enqueue", "fail", "null", "--wait"],
  ],
  status: () => [["status", "--all"]],
  alerts: () => [["alerts"], ["alerts", "--all", "--subject", EVIL], ["alerts", "--kind", EVIL]],
  explain: () => [ids.failed, ids.running, ids.stale, ids.poisoned, ids.waiting].map((id) => ["explain", id]),
  "tasks list": () => [
    ["tasks", "list"],
    ["tasks", "list", "--name", EVIL],
    ["tasks", "list", "--error-code", EVIL],
  ],
  "tasks show": () => [ids.failed, ids.running, ids.poisoned, ids.cancelled, EVIL].map((id) => ["tasks", "show", id]),
  "tasks cancel": () => [
    ["tasks", "cancel", EVIL],
    ["tasks", "cancel", ids.failed, "--reason", EVIL],
  ],
  "tasks retry": () => [
    ["tasks", "retry", EVIL],
    ["tasks", "retry", ids.completed],
  ],
  "tasks review": () => [
    ["tasks", "review", "--all"],
    ["tasks", "review", ids.review, "--done", "--note", EVIL],
  ],
  "tasks quarantined": () => [
    ["tasks", "quarantined"],
    ["tasks", "quarantined", EVIL],
  ],
  queues: () => [["queues"], ["queues", EVIL]],
  "queues pause": () => [["queues", "pause", EVIL]],
  "queues resume": () => [["queues", "resume", EVIL]],
  "queues set": () => [
    ["queues", "set", EVIL, "--concurrency", EVIL],
    ["queues", "set", EVIL],
  ],
  replicas: () => [["replicas", "--all"]],
  machines: () => [["machines"]],
  stale: () => [["stale", "--after", "0s"]],
  recover: () => [
    ["recover", "--dry-run", "--after", "0s"],
    ["recover", "--name", EVIL],
  ],
  "post-mortems": () => [["post-mortems"]],
  "post-mortem": () => [ids.poisoned, owner.replicaId, EVIL].map((id) => ["post-mortem", id]),
  migrate: () => [["migrate"], ["migrate", "--schema", EVIL]],
  doctor: () => [
    ["doctor"],
    ["doctor", "--schema", EVIL],
    ["doctor", "--database", `postgres://${encodeURIComponent(EVIL)}@127.0.0.1:1/x`],
  ],
};

/** Those that do something, by the words that they are called with. */
function commandsOf(parent: Command, path: readonly string[] = []): string[] {
  return parent.commands.flatMap((command) => {
    const words = [...path, command.name()];
    const below = commandsOf(command, words);
    const acts = (command as unknown as { _actionHandler: unknown })._actionHandler;
    return acts ? [words.join(" "), ...below] : below;
  });
}

test("every command of the program is asked", () => {
  const program = createProgram({ screen: createScreen({ isJson: false }), end() {} });
  expect(commandsOf(program).sort()).toEqual(Object.keys(CALLS).sort());
});

test.each(Object.entries(CALLS).filter(([, calls]) => calls !== null))(
  "%s sends the terminal nothing of users' text but what can be read",
  async (_command, calls) => {
    for (const words of calls?.() ?? []) {
      const { stdout, stderr } = await everbeatHere(words, at);
      const printed = stdout + stderr;
      expect(printed).not.toBe("");
      expect(commandsToTerminal(printed)).toEqual([]);
      expect(withoutColours(printed), "a line that a user's text begins").not.toMatch(/^ ?FORGED/m);
    }
  },
);

test("the same is true where there is no colour, and what was hidden can be read", async () => {
  const { stdout } = await cli(["tasks", "show", ids.failed], { database: database.url });
  expect(stdout).not.toContain("\x1b");
  expect(stdout).toContain("\\x1b[2J\\x1b]0;title\\x07");
  expect(stdout).toContain("\\u009b31m\\u2028\\u202egnp\\u2066\\t\\rFORGED");
});

test("a JSON document has the text as it is, escaped", async () => {
  const { stdout } = await cli(["tasks", "show", ids.failed, "--json"], at);
  expect(JSON.parse(stdout)).toMatchObject({ error: { message: EVIL }, metadata: { [EVIL]: EVIL } });
  expect(commandsToTerminal(stdout)).toEqual([]);
  const refused = await cli(["queues", "pause", EVIL, "--json"], at);
  expect(JSON.parse(refused.stdout)).toMatchObject({ error: { code: expect.any(String) } });
  expect(commandsToTerminal(refused.stdout)).toEqual([]);
});

const evilTasks = () =>
  projectWith({
    "tasks.mjs": `import { defineTask } from "everbeat";
const EVIL = ${JSON.stringify(EVIL)};
const run = async (_input, { log }) => {
  log.info({ [EVIL]: EVIL, more: { [EVIL]: EVIL } }, EVIL);
  log.info({ big: 10n }, EVIL);
  log.error({}, "and this is all");
  throw new Error(EVIL);
};
const settings = { queue: "logs", module: import.meta.url };
export const inline = defineTask({ ...settings, name: "log-inline", run });
export const thread = defineTask({ ...settings, name: "log-thread", runIn: "thread", run });
export const process_ = defineTask({ ...settings, name: "log-process", runIn: "process", run });`,
  });

const PLACES = ["inline", "thread", "process"] as const;
type Place = (typeof PLACES)[number];

/** All that a worker of these tasks writes while such a task runs in this place, from its start until it has stopped. */
async function logOfWorker(place: Place, ...flags: string[]): Promise<string> {
  const cwd = await evilTasks();
  const worker = startEverbeat(["start", "tasks.mjs", "--queues", "logs", ...flags], { ...at, cwd });
  await worker.says("worker started");
  const { stdout: id } = await cli(["enqueue", `log-${place}`], at);
  expect(id).toContain("enqueued");
  await worker.says(new RegExp(`log-${place} failed after`));
  worker.child.kill("SIGTERM");
  const { stdout, stderr } = await worker.ended;
  expect(commandsToTerminal(`${stdout}\n${stderr}`)).toEqual([]);
  return stdout;
}

test.each(PLACES)(
  "a worker's log lines for people are lines of ours, whatever handlers log and throw: %s",
  async (place) => {
    const stdout = await logOfWorker(place);
    expect(withoutColours(stdout)).toMatch(/^\d\d:\d\d:\d\d {2}· evil\\x1b\[2J/m);
    for (const line of withoutColours(stdout).trimEnd().split("\n")) expect(line).toMatch(/^\d\d:\d\d:\d\d {2}\S /);
  },
);

test.each(PLACES)(
  "its log lines for programs are one JSON object each, which a terminal can be shown too: %s",
  async (place) => {
    const lines = (await logOfWorker(place, "--json"))
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines).toContainEqual(expect.objectContaining({ message: EVIL, [EVIL]: EVIL, more: { [EVIL]: EVIL } }));
    expect(lines).toContainEqual(expect.objectContaining({ message: EVIL, big: "10" }));
    expect(lines).toContainEqual(expect.objectContaining({ error: expect.objectContaining({ message: EVIL }) }));
  },
);

test("dev shows why a task of its was cancelled, and obeys none of it", async () => {
  const dev = startEverbeat(["dev", "--database", database.url], at);
  await dev.says("worker started");
  const id = await everbeat.enqueue(defineTask({ name: "resize", queue: "images", run: () => null }), undefined);
  await dev.says(new RegExp(`resize started.*${id}`));
  await everbeat.tasks.cancel(id, { reason: EVIL });
  await dev.says(/resize cancelled after/);
  dev.child.kill("SIGTERM");
  const { stdout, stderr } = await dev.ended;
  expect(commandsToTerminal(`${stdout}\n${stderr}`)).toEqual([]);
  expect(withoutColours(stdout)).toMatch(/resize cancelled after .*evil\\x1b\[2J/);
  expect(withoutColours(stdout)).not.toMatch(/^ ?FORGED/m);
});

test("the library's own log lines on standard error are one JSON object each, and command no terminal", async () => {
  const task = defineTask({
    name: "plain",
    queue: "plain",
    async run(_input: unknown, { log }) {
      log.warn({ [EVIL]: EVIL }, EVIL);
      throw new Error(EVIL);
    },
  });
  const { stdout, stderr: printed } = await printedDuring(async () => {
    await using speaking = await Everbeat.open({ database: database.url, log: "debug" });
    await speaking.work([task], { handleSignals: false, queues: ["plain"] });
    await speaking.result(await speaking.enqueue(task, null)).catch(() => {});
  });
  expect(stdout).toBe("");
  expect(commandsToTerminal(printed)).toEqual([]);
  const lines = printed
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(lines).toContainEqual(expect.objectContaining({ level: "warn", message: EVIL, [EVIL]: EVIL }));
  expect(lines).toContainEqual(expect.objectContaining({ error: expect.objectContaining({ message: EVIL }) }));
});

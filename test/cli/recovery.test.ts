/** The commands about hearts and recovery, on workers that are really killed. */
import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { Explanation } from "../../src/recovery/explain.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { killWhile } from "../support/heart-scenes.ts";
import { refuse } from "../support/refusing.ts";
import { everbeat as cli, everbeatJson, projectWith, startEverbeat } from "./run-cli.ts";
import { everbeatHere as here, everbeatJsonHere as jsonHere } from "./run-here.ts";

interface Stale {
  tasks: { id: string; state: string; owner: string; ownerStatus: string; hostname: string; silentForMs: number }[];
}
interface Recovery {
  dryRun: boolean;
  failed: { id: string }[];
  requeued: { id: string }[];
}

const { everbeat, database } = await openTestEverbeat();
const at = { database: database.url };
const hold = defineTask({ name: "hold", run: () => new Promise<void>(() => {}) });
const TASKS = `import { defineTask } from "everbeat";
export const hold = defineTask({ name: "hold", run: () => new Promise((end) => setTimeout(end, 600_000)) });`;
const OFF = "autoRequeueStaleClaimed=false,autoFailStaleRunning=false";

/** A worker with one task running and one claimed ahead, SIGKILLed. */
async function killedWorker(recovery: string): Promise<{ running: string; claimed: string; replicaId: string }> {
  const cwd = await projectWith({ "tasks.js": TASKS });
  // It looks at what it has so rarely that it does not give back what it has claimed ahead.
  const work = ["--concurrency", "1", "--prefetch", "1", "--poll-interval", "1m"];
  const worker = startEverbeat(["start", "tasks.js", ...work, "--recovery", recovery], { ...at, cwd });
  await worker.says("worker started");
  // Before its first beat there is no session whose end could tell of its own.
  await eventually(async () =>
    (await everbeat.replicas()).some((row) => row.pid === worker.child.pid && row.hasSession),
  );
  const ids = await everbeat.enqueueMany(hold, [undefined, undefined]);
  const held = async () => {
    const tasks = await Promise.all(ids.map((id) => everbeat.tasks.show(id)));
    const running = tasks.find((task) => task.state === "running");
    const claimed = tasks.find((task) => task.state === "claimed");
    return running && claimed && { running: running.id, claimed: claimed.id, replicaId: String(running.replicaId) };
  };
  let left: Awaited<ReturnType<typeof held>>;
  const holdsBoth = async () => {
    left = await held();
    return left !== undefined;
  };
  const signal = (name: NodeJS.Signals) => void worker.child.kill(name);
  const kill = async () => {
    signal("SIGKILL");
    await worker.ended;
  };
  await killWhile({ signal, kill }, holdsBoth);
  if (!left) throw new Error("the worker held nothing");
  return left;
}

describe("where recovery is switched off", { timeout: 180_000 }, async () => {
  test("a killed worker's tasks are found, explained, and recovered by hand", async () => {
    const { running, claimed, replicaId } = await killedWorker(OFF);

    // Its session has ended; as long as its heart would take to stop because of that, nobody takes anything from it.
    const found = await eventually(() => everbeatJson<Stale>(["stale", "--after", "0s", "--replica", replicaId], at), {
      until: ({ answer }) => answer.tasks.length > 0,
      within: 30_000,
    });
    expect(found.code).toBe(0);
    expect(found.answer.tasks).toEqual([
      expect.objectContaining({ id: running, state: "running", owner: replicaId, silentForMs: expect.any(Number) }),
      expect.objectContaining({ id: claimed, state: "claimed", owner: replicaId, hostname: expect.any(String) }),
    ]);
    const { stdout } = await cli(["stale", "--after", "1ms", "--state", "claimed"], at);
    expect(stdout).toMatch(new RegExp(`^${claimed}  hold  ◐ claimed  default  ${replicaId}  . \\w+ `, "m"));
    expect(stdout).not.toContain(running);
    for (const none of [
      ["--name", "other"],
      ["--queue", "other"],
      ["--replica", randomUUID()],
      ["--after", "1d"],
    ])
      expect((await here(["stale", ...none, ...(none[0] === "--after" ? ["--state", "running"] : [])], at)).code).toBe(
        0,
      );

    // Another worker with the same settings sweeps, declares it dead, and touches nothing.
    const survivor = startEverbeat(["start", "tasks.js", "--queues", "elsewhere", "--recovery", OFF], {
      ...at,
      cwd: await projectWith({ "tasks.js": TASKS }),
    });
    await survivor.says("worker started");
    await eventually(
      async () => (await everbeat.replicas()).some((row) => row.id === replicaId && row.status === "dead"),
      { within: 40_000 },
    );
    const why = await everbeatJson<Explanation>(["explain", running], at);
    expect(why.answer).toMatchObject({ because: "recovery-off", isStuck: true, state: "running" });
    expect((await here(["explain", claimed], at)).stdout).toMatch(
      new RegExp(
        `switched off \\(autoRequeueStaleClaimed: false\\).*everbeat recover --claimed --replica ${replicaId}`,
        "s",
      ),
    );

    const dry = await everbeatJson<Recovery>(["recover", "--dry-run"], at);
    expect(dry.answer).toMatchObject({ dryRun: true, failed: [{ id: running }], requeued: [{ id: claimed }] });
    expect((await everbeat.tasks.show(running)).state).toBe("running");
    const requeued = await everbeatJson<Recovery>(["recover", "--claimed"], at);
    expect(requeued.answer).toMatchObject({ dryRun: false, failed: [], requeued: [{ id: claimed }] });
    expect(await everbeat.tasks.show(claimed)).toMatchObject({ state: "pending", attempt: 0, attempts: [] });
    const failed = await cli(["recover"], at);
    expect(failed.stdout).toContain("1 failed, 0 pending again");
    expect(failed.stdout).toContain("everbeat tasks review");
    expect((await everbeat.tasks.show(running)).error).toMatchObject({ code: "WORKER_CRASHED" });
    expect((await here(["recover"], at)).stdout).toBe("No task is stale, so nothing was done.\n");
    expect((await here(["stale"], at)).stdout).toContain("No task is stale");

    // What the doctor says while only a worker with recovery switched off is there.
    const { stdout: diagnosis } = await cli(["doctor"], at);
    expect(diagnosis).toMatch(/^✓ reaper +the last sweep was [\d.]+m?s ago/m);
    expect(diagnosis).toMatch(/^! recovery +switched off: autoRequeueStaleClaimed, autoFailStaleRunning/m);
    expect(diagnosis).toMatch(
      /^✓ hearts +.*a crash is known within 1\.6s by its session, a vanished host within 15\.3s/m,
    );
    survivor.child.kill("SIGTERM");
    await survivor.ended;
  });

  test("what failed is on the list for review until somebody has looked", async () => {
    const [task] = await everbeat.recovery.review.list();
    const id = String(task?.id);
    const { stdout } = await cli(["tasks", "review"], at);
    expect(stdout).toMatch(new RegExp(`^${id}  hold +default .* failed by hand; its worker on .* was dead`, "m"));
    expect(stdout).toContain("Each may have had part of its effects");
    expect((await here(["status"], at)).stdout).toContain("1 task needs review (everbeat tasks review)");
    expect((await jsonHere<Explanation>(["explain", id], at)).answer.because).toBe("needs-review");

    const done = await everbeatJson(["tasks", "review", id, "--done", "--note", "nothing was sent"], at);
    expect(done).toEqual({ code: 0, answer: { reviewed: [id], redriven: [] } });
    expect((await here(["tasks", "review"], at)).stdout).toBe("No task needs review.\n");
    expect((await here(["tasks", "review", "--all"], at)).stdout).toContain("nothing was sent");
    const redriven = await jsonHere(["tasks", "review", id, "--redrive"], at);
    expect(redriven).toEqual({ code: 0, answer: { reviewed: [id], redriven: [id] } });
    expect((await everbeat.tasks.show(id)).state).toBe("pending");
    expect((await here(["tasks", "review", id, "--done"], at)).code).toBe(1);
    await everbeat.tasks.cancel({ name: "hold" });
  });
});

describe("where it is on", { timeout: 180_000 }, async () => {
  test("a killed worker is shown as dead, and its tasks recover by themselves", async () => {
    const worker = await everbeat.work([defineTask({ name: "other", run: () => {} })], { handleSignals: false });
    const { running, claimed, replicaId } = await killedWorker("fast");
    for (const [id, state] of [
      [running, "failed"],
      [claimed, "pending"],
    ] as const)
      await eventually(async () => (await everbeat.tasks.show(id)).state === state, { within: 40_000 });

    const { stdout } = await cli(["replicas"], at);
    expect(stdout).toMatch(new RegExp(`^${replicaId}  ✗ dead +0 +0 +its session ended`, "m"));
    expect(stdout).toMatch(new RegExp(`^${worker.replicaId}  ● online +0 +0 +fresh .* MiB`, "m"));
    const { answer } = await jsonHere<{ replicas: { id: string; heart: string; vitals: object }[] }>(["replicas"], at);
    expect(answer.replicas).toContainEqual(
      expect.objectContaining({ id: worker.replicaId, heart: "fresh", vitals: expect.objectContaining({ inHand: 0 }) }),
    );
    const status = await cli(["status"], at);
    expect(status.stdout).toMatch(/and \d+ that died within the last hour/);
    expect((await here(["status", "--all"], at)).stdout).toMatch(new RegExp(`${replicaId}  ✗ dead`));
    expect(status.stdout).toMatch(/swept [\d.]+m?s ago.*\(every 250ms, profile fast\)/);
    expect((await jsonHere<Explanation>(["explain", claimed], at)).answer.because).toBe("unknown-task");
    await worker.stop();
  });

  test("machines are online while one of their replicas is", async () => {
    const [machine] = await everbeat.recovery.machines();
    expect((await cli(["machines"], at)).stdout).toMatch(
      new RegExp(`^${machine?.hostname} +○ offline +0 of \\d+ .*(ago|just now)`, "m"),
    );
    const worker = await everbeat.work([defineTask({ name: "other", run: () => {} })], { handleSignals: false });
    const { answer } = await jsonHere<{ machines: unknown[] }>(["machines"], at);
    expect(answer.machines).toEqual([expect.objectContaining({ isOnline: true, online: 1 })]);
    await worker.stop();
  });
});

test("a hold is shown with its source, and confirmed", async () => {
  expect((await here(["recover", "--confirm"], at)).stdout).toContain("Nothing is held");
  await database.query(
    `insert into everbeat.hold (source, counted, since, renewed_at, kept_for) values
       ('hearts', 'machines', clock_timestamp() - interval '5 seconds', clock_timestamp(), '1 hour'),
       ('imports', 'owners', clock_timestamp(), clock_timestamp(), '1 hour'),
       ('left-behind', 'owners', clock_timestamp() - interval '40 days', clock_timestamp() - interval '40 days', '1 minute')`,
  );
  await database.query(
    "insert into everbeat.alert (kind, subject, message) values ('mass-death', 'hearts', '3 of 4 machines fell silent at once')",
  );
  const { stdout } = await here(["status"], at);
  expect(stdout).toMatch(
    /recovery \(hearts\) is held for \d+s: too many machines .*\n?.*everbeat recover --confirm hearts/,
  );
  expect(stdout).toMatch(
    /recovery \(imports\) is held for .*: too many owners .*\n?.*everbeat recover --confirm imports/,
  );
  expect(stdout).toContain("3 of 4 machines fell silent at once");
  expect(stdout).not.toContain("left-behind");
  expect((await here(["doctor"], at)).stdout).not.toContain("left-behind");
  // A script must not take a name that is misspelt for one that was confirmed.
  expect(await here(["recover", "--confirm", "haerts"], at)).toMatchObject({
    code: 1,
    stdout: expect.stringContaining("Nothing of haerts is held, and nothing was confirmed. Held: hearts, imports."),
  });
  expect((await here(["recover", "--confirm", ""], at)).stderr).toContain("source: ");
  const only = { code: 0, answer: { confirmed: ["imports"], others: ["hearts"] } };
  expect(await everbeatJson(["recover", "--confirm", "imports"], at)).toEqual(only);
  const after = (await here(["status"], at)).stdout.replace(/\s+/g, " ");
  expect(after).toContain("fell silent at once; confirmed, so the next sweep acts");
  expect(after).not.toContain("--confirm imports");
  expect(after).toContain("everbeat recover --confirm hearts");
  const both = { code: 0, answer: { confirmed: ["hearts", "imports"], others: [] } };
  expect(await everbeatJson(["recover", "--confirm"], at)).toEqual(both);
});

test("a task that does not exist is not explained", async () => {
  const { code, answer } = await jsonHere<{ error: { code: string } }>(["explain", randomUUID()], at);
  expect(code).toBe(1);
  expect(answer.error.code).toBe("TASK_NOT_FOUND");
  const odd = await here(["explain", "abc"], at);
  expect(odd.code).toBe(2);
  expect(odd.stderr).toContain(`id: must be a task's id (a UUID), not "abc"`);
});

test("the doctor says that nobody sweeps, where workers are on record and silent", async () => {
  await database.query("update everbeat.listening set swept_at = clock_timestamp() - interval '10 minutes'");
  await database.query(
    "insert into everbeat.replica (id, hostname, pid, version, tasks) values (gen_random_uuid(), 'gone', 1, '0', '{}')",
  );
  const { code, stdout } = await here(["doctor"], at);
  expect(code).toBe(1);
  expect(stdout).toMatch(
    /^✗ reaper +nobody has listened for 10m.*, though 1 replica is on record as online\n +→ Start a worker/m,
  );
  const { stdout: status } = await here(["status"], at);
  expect(status).toMatch(/! nobody has listened for 10m.*, since \d{4}-\d\d-\d\dT/);
  expect(status).toMatch(/ \? unheard .* nobody has listened for 10m/);
  expect(status).not.toContain("online");
  expect((await here(["replicas"], at)).stdout).toMatch(/ \? unheard .* nobody has listened for 10m/);
});

test("what the database refuses to have recovered is shown beside what was done, and the exit code is 1", async () => {
  const task = defineTask({ name: "refused", run: (_input: number) => null });
  const ids = await everbeat.enqueueMany(task, [1, 2, 3]);
  const dead = handClaimer(everbeat.database, ["refused"]);
  await dead.claim();
  await database.query("update everbeat.replica set status = 'dead', died_at = now() where id = $1", [dead.replicaId]);
  await refuse(database, "ended", `new.task_id = '${ids[1]}'`);
  const { code, stdout } = await here(["recover", "--name", "refused"], at);
  expect(code).toBe(1);
  expect(stdout).toMatch(/^2 failed, 0 pending again$/m);
  expect(stdout).toMatch(new RegExp(`refused to change these.*\\n  ${ids[1]}  this row is not to be written\\n$`, "s"));
  expect(await jsonHere(["recover", "--name", "refused"], at)).toMatchObject({
    code: 1,
    answer: { failed: [], refused: [{ id: ids[1], message: "this row is not to be written" }] },
  });
  expect((await here(["recover", "--name", "refused"], at)).stdout).toMatch(/^Nothing was done\.$/m);
});

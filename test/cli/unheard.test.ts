/** The commands that judge owners, after the only worker was killed: nobody listens, so nobody knows. */
import { expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { projectWith, startEverbeat } from "./run-cli.ts";
import { everbeatHere as here, everbeatJsonHere as jsonHere } from "./run-here.ts";

const { everbeat, database } = await openTestEverbeat();
const at = { database: database.url };
const other = await openTestEverbeat();
const hold = defineTask({ name: "hold", run: () => new Promise<void>(() => {}) });
const TASKS = `import { defineTask } from "everbeat";
export const hold = defineTask({ name: "hold", run: () => new Promise((end) => setTimeout(end, 600_000)) });`;

test("status, machines, stale, recover and explain agree that a worker is unheard when nobody listens", async () => {
  const cwd = await projectWith({ "tasks.js": TASKS });
  // By these settings there is time for all commands before its heart has promised to have stopped.
  const worker = startEverbeat(["start", "tasks.js", "--recovery", "claimed-and-running"], { ...at, cwd });
  await worker.says("worker started");
  const id = await everbeat.enqueue(hold, undefined);
  await eventually(async () => (await everbeat.tasks.show(id)).state === "running");
  await eventually(async () => (await everbeat.recovery.listening()) !== undefined);
  worker.child.kill("SIGKILL");
  await worker.ended;
  await database.query("update everbeat.listening set swept_at = clock_timestamp() - interval '10 minutes'");

  for (const command of ["status", "machines"]) {
    const { stdout } = await here([command], at);
    expect(stdout).toMatch(/ \? unheard .* nobody has listened for 10m/);
    expect(stdout).not.toContain("online");
  }
  const unsure =
    /Nothing can be said for sure: nobody has listened for 10m\b.*, and 1 task is held by workers that are unheard/;
  const stale = await here(["stale"], at);
  expect(stale.stdout).toMatch(unsure);
  expect(stale.stdout).not.toMatch(/online|alive|by themselves/);
  expect(await here(["recover"], at)).toMatchObject({ code: 1, stdout: expect.stringMatching(unsure) });
  const because = { unsure: { since: expect.any(String), held: 1 } };
  expect((await jsonHere(["stale"], at)).answer).toMatchObject({
    tasks: [],
    unheardSince: expect.any(String),
    ...because,
  });
  expect(await jsonHere(["recover"], at)).toMatchObject({ code: 1, answer: because });
  // That is about the tasks that were asked for, and about no others.
  for (const filter of [["--name", "other"], ["--queue", "none"], ["--claimed"], ["--after", "1h", "--dry-run"]]) {
    expect(await jsonHere(["recover", ...filter], at)).toMatchObject({ code: 0, answer: { unsure: null } });
    expect((await here(["recover", ...filter], at)).stdout).toMatch(/^No .*so nothing was done/);
  }
  expect(await jsonHere(["recover", "--name", "hold", "--running"], at)).toMatchObject({ code: 1, answer: because });
  expect((await jsonHere(["stale", "--name", "other"], at)).answer).toMatchObject({ tasks: [], unsure: null });
  const { stdout: why } = await here(["explain", id], at);
  expect(why).toMatch(/cannot be said for sure: nobody has listened for 10m.*: unheard/s);
  expect(why).not.toMatch(/online|on a worker that is alive/);

  // Once its heart has promised to have stopped, it can be recovered by hand; still nobody calls it online.
  await database.query("update everbeat.heart set beat_at = beat_at - interval '30 minutes'");
  await database.query("update everbeat.listening set hearing_since = hearing_since - interval '30 minutes'");
  for (const command of [["stale"], ["recover", "--dry-run"]])
    expect((await here(command, at)).stdout).toMatch(new RegExp(`^${id} .* \\? unheard `, "m"));
  expect((await here(["explain", id], at)).stdout).not.toMatch(/online|about to be declared dead/);
});

test("status, stale, recover and explain agree on the only worker in the moment after its death", async () => {
  const { everbeat, database } = other;
  const at = { database: database.url };
  const cwd = await projectWith({ "tasks.js": TASKS });
  const worker = startEverbeat(["start", "tasks.js"], { ...at, cwd });
  await worker.says("worker started");
  const id = await everbeat.enqueue(hold, undefined);
  await eventually(async () => (await everbeat.tasks.show(id)).state === "running");
  await eventually(async () => (await everbeat.replicas()).every((row) => row.holdsSession));
  await eventually(async () => (await everbeat.recovery.listening()) !== undefined);
  worker.child.kill("SIGKILL");
  await worker.ended;
  await eventually(async () => (await everbeat.replicas()).every((row) => !row.holdsSession));
  // The moment lasts for as long as the last sweep counts as recent.
  const moment = () => database.query("update everbeat.listening set swept_at = clock_timestamp()");

  await moment();
  expect((await here(["status"], at)).stdout).toContain("session gone");
  for (const command of ["stale", "recover"]) {
    await moment();
    const { stdout } = await here([command], at);
    expect(stdout).toMatch(
      /task is held by a worker whose database session is gone.*if none runs, nothing happens until/,
    );
    expect(stdout).not.toContain("alive");
  }
  await moment();
  const { stdout } = await here(["explain", id], at);
  expect(stdout).toMatch(/database session ended.*if no other worker runs, nothing happens until one starts/s);

  // Nobody listens any more, and it has given no sign of life for longer than its heart takes to stop.
  await database.query("update everbeat.listening set swept_at = clock_timestamp() - interval '10 minutes'");
  await database.query("update everbeat.listening set hearing_since = clock_timestamp() - interval '20 minutes'");
  await database.query("update everbeat.heart set beat_at = beat_at - interval '12 seconds'");
  const nobody = "5b0f3c1e-7a52-4c1b-9d7a-2f0a4f0f6b11";
  expect((await here(["recover", "--replica", nobody], at)).stdout).not.toContain("held by workers");
  const { stdout: why } = await here(["explain", id], at);
  const line = /\$ everbeat (recover --running --replica \S+ --after 10s)$/m.exec(why)?.[1];
  expect((await here(line?.split(" ") ?? [], at)).stdout).toContain("1 failed, 0 pending again");
});

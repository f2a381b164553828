import { expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { newReplicaId } from "../../src/task/ids.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { everbeat as cli, everbeatJson } from "./run-cli.ts";
import { everbeatHere as here } from "./run-here.ts";

const { everbeat, database } = await openTestEverbeat();
const at = { database: database.url };

test("an empty fleet is told apart from a broken one", async () => {
  const { code, stdout } = await cli(["status"], at);
  expect(code).toBe(0);
  expect(stdout).toContain("○ 0 pending");
  expect(stdout).toContain("none is here. Start one: everbeat start tasks.ts");
  expect(stdout).not.toContain("\n\n\n");
});

test("the fleet at a glance: counts, queues, and what each replica holds", async () => {
  let release = () => {};
  const hold = defineTask({
    name: "hold",
    run: () =>
      new Promise<void>((resolve) => {
        release = resolve;
      }),
  });
  const worker = await everbeat.work([hold], { handleSignals: false });
  const id = await everbeat.enqueue(hold, undefined);
  await eventually(async () => (await everbeat.tasks.show(id)).state === "running");

  const { stdout } = await cli(["status"], at);
  expect(stdout).toContain("● 1 running");
  expect(stdout).toMatch(/^ {2}default +▸ open +0 +0 +0 +0 +1 /m);
  expect(stdout).toMatch(new RegExp(`^  ${worker.replicaId}  ● online +0 +1 `, "m"));
  const { answer } = await everbeatJson(["status"], at);
  expect(answer).toMatchObject({
    schema: "everbeat",
    counts: { running: 1 },
    queues: [{ name: "default", running: 1 }],
    replicas: [{ id: worker.replicaId, status: "online", running: 1, tasks: ["hold"] }],
  });

  release();
  await worker.stop();
  expect((await here(["status"], at)).stdout).toContain("and 1 that left before");
  expect((await here(["status", "--all"], at)).stdout).toContain(worker.replicaId);
});

test("of the dead that hold nothing the number is enough, and who is here stands first", async () => {
  const dead = await Promise.all(Array.from({ length: 3 }, () => replicaOf("dead")));
  const alive = await replicaOf("online");
  const { stdout } = await here(["status"], at);
  expect(stdout).toContain("  and 3 that died within the last hour (everbeat replicas shows them)\n");
  for (const id of dead) expect(stdout).not.toContain(id);
  const all = (await here(["status", "--all"], at)).stdout;
  for (const id of dead) expect(all.indexOf(alive)).toBeLessThan(all.indexOf(id));
  expect(all.indexOf(alive)).toBeGreaterThan(0);
  const { answer } = await everbeatJson<{ replicas: { id: string }[] }>(["status"], at);
  expect(answer.replicas.map(({ id }) => id)).toEqual(expect.arrayContaining(dead));
});

async function replicaOf(status: "online" | "dead"): Promise<string> {
  const id = newReplicaId();
  await database.query(
    "insert into everbeat.replica (id, hostname, machine_id, pid, version, tasks) values ($1, 'host-7', 'm', 1, '0', '{}')",
    [id],
  );
  if (status === "dead")
    await database.query("update everbeat.replica set status = 'dead', died_at = now() where id = $1", [id]);
  return id;
}

test("no password is shown", async () => {
  const address = new URL(database.url);
  const { stdout } = await cli(["status"], at);
  expect(stdout).toContain(address.host);
  expect(address.password).not.toBe("");
  expect(stdout).not.toContain(address.password);
});

/** The commands about deaths: post-mortems, the quarantine, machines that flap. */
import { randomUUID } from "node:crypto";
import { expect, test, vi } from "vitest";
import type { PostMortemRow } from "../../src/sql/post-mortems.ts";
import { writePostMortems } from "../../src/sql/post-mortems.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { newReplicaId, type TaskId } from "../../src/task/ids.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { everbeat as cli, everbeatJson } from "./run-cli.ts";
import { everbeatHere as here, everbeatJsonHere as jsonHere } from "./run-here.ts";

vi.setConfig({ testTimeout: 120_000 });

const { everbeat, database } = await openTestEverbeat();
const at = { database: database.url };
const resize = defineTask({ name: "resize", run: (_input: unknown) => null });
const worker = handClaimer(everbeat.database, ["resize"]);
const sentence = "The process ended without a word, as by kill -9 or a crash; nobody saw how.";

async function poisoned(): Promise<string> {
  const id = await everbeat.enqueue(resize, { url: "a.png" });
  const [claimed] = await worker.claim();
  if (!claimed) throw new Error("nothing was claimed");
  const { replicaId } = worker;
  const told = {
    cause: "process-ended",
    sentence,
    evidence: ["its heart's database session ended"],
    hostname: "host-7",
  };
  await writePostMortems(everbeat.database, [
    { ...told, kind: "replica", replicaId },
    { ...told, kind: "attempt", replicaId, taskId: id, claimId: claimed.claimId, name: "resize" },
  ]);
  await worker.end([
    {
      ...{
        claim: claimed.claimId,
        task: claimed.taskId,
        replica: replicaId,
        to: "failed",
        outcome: "failed",
        crashes: 3,
      },
      error: { code: "POISONED", message: "The worker that ran this task is dead." },
    },
  ]);
  return id;
}

test("a task in quarantine is listed, explained, and run again", async () => {
  expect((await here(["tasks", "quarantined"], at)).stdout).toBe("No task is in quarantine.\n");
  const id = await poisoned();
  const { stdout } = await cli(["tasks", "quarantined"], at);
  expect(stdout).toMatch(new RegExp(`^${id}  resize  default +3  .* ${sentence}`, "m"));
  expect(stdout).toContain("--redrive runs it again");
  expect((await here(["status"], at)).stdout).toContain("1 task is in quarantine (everbeat tasks quarantined)");
  expect((await here(["tasks", "show", id], at)).stdout).toMatch(
    new RegExp(`^post-mortem +attempt 1: ${sentence}`, "m"),
  );
  const explained = await here(["explain", id], at);
  expect(explained.stdout).toContain(
    `it was running when 3 workers or runners died, more than any other task there. ${sentence}`,
  );
  expect(explained.stdout).toContain(`$ everbeat tasks retry ${id}`);

  expect((await here(["tasks", "quarantined", randomUUID()], at)).code).toBe(1);
  const redriven = await everbeatJson(["tasks", "quarantined", id, "--redrive"], at);
  expect(redriven).toEqual({ code: 0, answer: { redriven: [id] } });
  expect(await everbeat.tasks.show(id)).toMatchObject({ state: "pending", crashes: 0 });
});

test("post-mortems are listed, and shown by number, replica or task", async () => {
  const { answer } = await everbeatJson<{ postMortems: PostMortemRow[] }>(["post-mortems"], at);
  expect(answer.postMortems).toMatchObject([
    { kind: "attempt", name: "resize", cause: "process-ended", sentence },
    { kind: "replica", replicaId: worker.replicaId, hostname: "host-7" },
  ]);
  const { stdout } = await here(["post-mortems", "--kind", "replica"], at);
  expect(stdout).toMatch(new RegExp(`replica +${worker.replicaId} +process-ended +host-7 +The process ended`));
  const [attempt, replica] = answer.postMortems;
  for (const id of [replica?.id, worker.replicaId]) {
    const one = await here(["post-mortem", String(id)], at);
    expect(one.stdout).toMatch(
      new RegExp(`^process-ended  replica ${worker.replicaId} on host-7, .*\n\n${sentence}\n  · its heart's`),
    );
  }
  const ofTask = await everbeatJson<{ postMortems: PostMortemRow[] }>(["post-mortem", String(attempt?.taskId)], at);
  expect(ofTask.answer.postMortems).toMatchObject([{ id: attempt?.id }]);
  const none = await here(["post-mortem", randomUUID()], at);
  expect(none).toMatchObject({ code: 1, stdout: expect.stringContaining("There is no post-mortem of") });
  const wrong = await here(["post-mortem", "yesterday"], at);
  expect(wrong.code).not.toBe(0);
  expect(wrong.stderr).toContain("must be the number of a post-mortem or the id of a replica or a task");
});

test("the end of a runner is listed once, with how many more of its batch there are", async () => {
  const runnerId = randomUUID();
  const told = {
    kind: "runner",
    cause: "killed",
    sentence: "Killed.",
    evidence: [],
    hostname: "host-7",
    runnerId,
  } as const;
  const ids = Array.from({ length: 5 }, () => randomUUID() as TaskId);
  await writePostMortems(
    everbeat.database,
    ids.map((taskId) => ({ ...told, replicaId: worker.replicaId, taskId, name: "resize" })),
  );
  const { stdout } = await here(["post-mortems", "--kind", "runner"], at);
  expect(stdout.split(runnerId)).toHaveLength(2);
  expect(stdout).toMatch(/and 4 more of its batch +killed/);
  const { answer } = await jsonHere<{ postMortems: PostMortemRow[] }>(["post-mortems", "--kind", "runner"], at);
  expect(answer.postMortems.map(({ taskId }) => taskId).sort()).toEqual([...ids].sort());
});

test("a machine that flaps is shown with its rate", async () => {
  await database.query(
    "insert into everbeat.machine (id, hostname, first_seen_at) values ('m', 'shaky', now() - interval '2 days')",
  );
  for (let death = 0; death < 4; death++) {
    const id = newReplicaId();
    await database.query(
      "insert into everbeat.replica (id, hostname, machine_id, pid, version, tasks) values ($1, 'shaky', 'm', 1, '0', '{}')",
      [id],
    );
    await database.query("update everbeat.replica set status = 'dead', died_at = now() where id = $1", [id]);
  }
  const { stdout } = await cli(["machines"], at);
  expect(stdout).toMatch(/^shaky +○ offline +0 of 4 +0 +– +4 +12h( \d+s)? +0 .*flaps: 4 deaths in the last hour/m);
  expect((await here(["doctor"], at)).stdout).toMatch(/^! flapping +shaky: 4 deaths in the last hour/m);
  expect((await here(["status"], at)).stdout).toContain(
    "shaky flaps: 4 deaths in the last hour (everbeat post-mortems)",
  );
  const { answer } = await jsonHere<{ machines: unknown[] }>(["machines"], at);
  expect(answer.machines).toContainEqual(
    expect.objectContaining({ id: "m", reliability: expect.objectContaining({ deaths: 4, isFlapping: true }) }),
  );
});

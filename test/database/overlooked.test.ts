/** What sorts before the place where a search begins is found all the same. */
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { readOutlook } from "../../src/sql/claims.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const { everbeat, database } = await openTestEverbeat();

/** As a transaction would that began an hour ago: nobody is told. */
async function putInLate(name: string, queue: string, id: string = randomUUID()): Promise<string> {
  await database.query(
    `with task as (
       insert into everbeat.task (id, name, queue, priority, run_at, input) values ($1, $2, $3, 0, now() - interval '1 hour', '1') returning *)
     insert into everbeat.ready (task_id, queue, priority, run_at, name) select id, queue, priority, run_at, name from task`,
    [id, name, queue],
  );
  return id;
}

test.each([
  ["any", randomUUID()],
  ["the lowest", "00000000-0000-0000-0000-000000000000"],
])("a worker that has seen everything finds what was put in before that, with %s id", async (_, id) => {
  const done: string[] = [];
  const name = `late-${randomUUID()}`;
  const task = defineTask({ name, run: (_input: number, { task: own }) => void done.push(own.id) });
  const first = await everbeat.enqueue(task, 1);
  const worker = await everbeat.work([task], { pollInterval: "100ms", handleSignals: false });
  await eventually(() => done.includes(first), { what: "the first" });
  const second = await putInLate(name, "default", id);
  await eventually(() => done.includes(second), { what: "the late one" });
  await worker.stop();
});

test("it is told from what is due, unknown, paused, limited or in other queues", async () => {
  const [name, queue, limited] = [`n-${randomUUID()}`, `q-${randomUUID()}`, `q-${randomUUID()}`];
  const claimer = handClaimer(everbeat.database, [name]);
  const task = defineTask({ name, run: (_input: number) => null });
  await everbeat.enqueue(task, 1, { queue });
  await everbeat.queues.set(limited, { concurrency: 1 });
  await everbeat.enqueue(task, 1, { queue: limited });
  const { seenUpTo } = await claimer.look();
  expect(seenUpTo).toBeDefined();
  const overlooked = async (names: string[], queues?: string[]) =>
    (await readOutlook(everbeat.database, names, queues, seenUpTo)).overlooked;
  await everbeat.enqueue(task, 2, { queue });
  expect(await overlooked([name])).toEqual([]);
  const id = await putInLate(name, queue);
  expect(await overlooked(["another"])).toEqual([]);
  expect(await overlooked([name], ["another"])).toEqual([]);
  const places = await overlooked([name]);
  expect(places).toHaveLength(1);
  // From there a search finds it; from where everything was seen it does not.
  expect((await claimer.claim({ seenUpTo })).map(({ taskId }) => taskId)).not.toContain(id);
  expect((await claimer.claim({ seenUpTo, cursors: places })).map(({ taskId }) => taskId)).toContain(id);
  await everbeat.queues.pause(queue);
  await putInLate(name, queue);
  expect(await overlooked([name])).toEqual([]);
  // A queue with a limit is searched from its beginning in any case. As if it had none:
  await putInLate(name, limited);
  expect(await overlooked([name])).toEqual([]);
  await database.query("delete from everbeat.queue where name = $1", [limited]);
  expect(await overlooked([name])).toHaveLength(1);
});

test("what waits in a queue that was paused, or at its limit, counts as not seen", async () => {
  const [name, queue] = [`n-${randomUUID()}`, `q-${randomUUID()}`];
  const claimer = handClaimer(everbeat.database, [name]);
  await everbeat.enqueue(defineTask({ name, run: (_input: number) => null }), 1, { queue });
  await database.query("update everbeat.ready set run_at = now() - interval '1 minute' where queue = $1", [queue]);
  await everbeat.queues.set(queue, { concurrency: 0 });
  const { seenUpTo } = await claimer.look();
  expect(seenUpTo).toBeDefined();
  await everbeat.queues.pause(queue);
  expect(await claimer.claim({ seenUpTo })).toEqual([]);
  await everbeat.queues.set(queue, { concurrency: null });
  await everbeat.queues.resume(queue);
  expect(await claimer.claim({ seenUpTo })).toHaveLength(1);
});

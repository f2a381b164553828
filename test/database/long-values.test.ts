/** Inputs and results that are long travel beside the JSON of the others: they are what was given, to the letter. */
import pg from "pg";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { endClaims } from "../../src/sql/outcomes.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { newReplicaId } from "../../src/task/ids.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const { everbeat, database } = await openTestEverbeat();
afterAll(() => everbeat.close({ now: true }));

/** With what is easily lost on the way: quotes, backslashes, a zero character, half an emoji, other scripts, line ends. */
const AWKWARD = 'a "quoted" \\ back\\slash \u0000 zero \ud83d half \ud83d\ude00 whole\r\n дом {"json":"in text"} $1';
const long = (n: number) => ({ n, text: `${AWKWARD}${String(n).repeat(60_000)}` });
const short = (n: number) => ({ n, text: AWKWARD });
const sizes = (n: number) => (n % 3 === 0 ? short(n) : long(n));

const storedInputs = async (ids: readonly string[]) => {
  const rows = await database.query<{ id: string; input: string }>(
    "select id::text, input::text as input from everbeat.task where id = any ($1::uuid[])",
    [ids],
  );
  const byId = new Map(rows.map(({ id, input }) => [id, input]));
  return ids.map((id) => byId.get(id));
};

const echo = defineTask({ name: "echo", run: async (input: { n: number; text: string }) => input });
const stored = defineTask({ name: "stored", queue: "nobody", run: async (_input: { n?: number }) => {} });
const texts = (values: readonly unknown[]) => values.map((value) => JSON.stringify(value));

describe("inputs", () => {
  test.each([
    ["one", [long(1)]],
    ["several", [1, 2, 3, 4, 5].map(long)],
    ["long and short ones", [1, 2, 3, 4, 5, 6, 7].map(sizes)],
  ])("%s in one call", async (_what, inputs) => {
    expect(await storedInputs(await everbeat.enqueueMany(stored, inputs))).toEqual(texts(inputs));
  });

  test("of single calls at once, of terms of their own, and with chosen ids", async () => {
    const inputs = [1, 2, 3, 4].map(long);
    const single = await Promise.all(inputs.map((input) => everbeat.enqueue(stored, input)));
    expect(await storedInputs(single)).toEqual(texts(inputs));
    const prioritised = await everbeat.enqueueMany(stored, inputs, { options: ({ n = 0 }) => ({ priority: n % 2 }) });
    expect(await storedInputs(prioritised)).toEqual(texts(inputs));
    const id = crypto.randomUUID();
    expect(await everbeat.enqueue(stored, long(1), { id })).toBe(id);
    // Known already, it is left as it is.
    await everbeat.enqueueMany(stored, [long(2)], { options: { id } });
    expect(await storedInputs([id])).toEqual(texts([long(1)]));
  });

  test("in a transaction of the caller's", async () => {
    const client = new pg.Client(database.url);
    await client.connect();
    onTestFinished(() => client.end());
    await client.query("begin");
    const ids = await everbeat.enqueueMany(stored, [long(1), long(2)], { tx: client });
    await client.query("commit");
    expect(await storedInputs(ids)).toEqual(texts([long(1), long(2)]));
  });
});

describe("results", () => {
  test("long and short ones in the same rounds", async () => {
    const worker = await everbeat.work([echo], { handleSignals: false, concurrency: 20 });
    const inputs = Array.from({ length: 40 }, (_, n) => sizes(n));
    const ids = await everbeat.enqueueMany(echo, inputs);
    const results = await Promise.all(ids.map((id) => everbeat.result(id, { timeout: "30s" })));
    await worker.stop();
    expect(results).toEqual(inputs);
    const rows = await database.query<{ result: string }>(
      "select result::text as result from everbeat.ended join unnest($1::uuid[]) with ordinality as t (id, place) on id = task_id order by place",
      [ids],
    );
    expect(rows.map(({ result }) => result)).toEqual(texts(inputs));
  });

  test("of a claim that is lost are kept as late, to the letter", async () => {
    const id = await everbeat.enqueue(stored, {});
    const resultJson = JSON.stringify(long(7));
    const outcome = {
      ...{ claim: "123456789" as never, task: id, replica: newReplicaId() },
      ...({ to: "completed", outcome: "completed", resultJson } as const),
    };
    expect(await endClaims(everbeat.database, [outcome])).toMatchObject({ late: ["123456789"] });
    expect(await database.query("select result::text as result from everbeat.late where task_id = $1", [id])).toEqual([
      { result: resultJson },
    ]);
  });

  test("many that are large leave in rounds that can be carried", async () => {
    const big = defineTask({ name: "big", run: async () => "x".repeat(1_000_000) });
    const worker = await everbeat.work([big], { handleSignals: false, concurrency: 30 });
    const ids = await everbeat.enqueueMany(big, new Array<undefined>(30).fill(undefined));
    const done = () => everbeat.database.query("select from everbeat.ended where task_id = any ($1::uuid[])", [ids]);
    await eventually(async () => (await done()).length === 30, { within: 30_000 });
    await worker.stop();
  });
});

test("values are compressed by LZ4 where the server knows it", async () => {
  const rows = await database.query<{ compression: string; isKnown: boolean }>(
    `select distinct attcompression::text as compression,
            (select 'lz4' = any (enumvals) from pg_settings where name = 'default_toast_compression') as "isKnown"
     from pg_attribute where (attrelid, attname) in
       (('everbeat.task'::regclass, 'input'), ('everbeat.ended'::regclass, 'result'), ('everbeat.attempt'::regclass, 'result'), ('everbeat.late'::regclass, 'result'))`,
  );
  expect(rows).toEqual([{ compression: rows[0]?.isKnown ? "l" : "", isKnown: rows[0]?.isKnown }]);
});

/** Every operation against a real database: what it answers fits its schema, which is what clients and documents are made from. */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { Everbeat } from "../../src/everbeat.ts";
import type { Operation, Reached } from "../../src/operations/operation.ts";
import {
  type InputOf,
  OPERATIONS,
  type OperationName,
  perform,
  type ValueOf,
} from "../../src/operations/operations.ts";
import { raiseAlert } from "../../src/sql/alerts.ts";
import { beginHold } from "../../src/sql/holds.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { LISTENING, openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { deadOwner, quarantined, silentOwner } from "../support/left-by-the-dead.ts";
import { massDeath } from "../support/mass-death.ts";
import { refuse } from "../support/refusing.ts";

const { everbeat, database } = await openTestEverbeat();

const greet = defineTask({ name: "greet", run: async (name: string) => `Hello, ${name}!` });
const stumble = defineTask({
  name: "stumble",
  queue: "danger",
  async run(_: undefined, { phase, progress, log }) {
    await phase("download", { platform: "cdn" });
    progress({ done: 3, total: 12 }, "page 3");
    log.warn({ today: true }, "slow");
    throw Object.assign(new Error("it stumbled", { cause: new Error("a stone") }), { code: "STONE" });
  },
});
const idle = defineTask({ name: "idle", queue: "nobody-works-here", run: async () => {} });

const greeted = await everbeat.enqueue(greet, "Ada");
const stumbled = await everbeat.enqueue(stumble);

beforeAll(async () => {
  await everbeat.work([greet, stumble], { handleSignals: false, queues: ["default", "danger"] });
  await everbeat.result(greeted);
  await everbeat.result(stumbled).catch(() => {});
});

/** As docs/database.md has them, for a role that only looks. */
const GRANTS_TO_READ = [...readFileSync("docs/database.md", "utf8").matchAll(/^grant .* to reader;$/gm)].map(
  ([line]) => line,
);

/** With what each is asked here. One that is not in this list is an error of the compiler. */
const INPUTS: { readonly [Name in OperationName]: () => Promise<readonly InputOf<Name>[]> } = {
  "tasks.list": async () => [{}, { state: "failed", limit: 1 }, { createdAfter: "2999-01-01" }],
  "tasks.show": async () => [{ id: greeted }, { id: stumbled }],
  "tasks.counts": async () => [{}],
  async "tasks.cancel"() {
    const id = await everbeat.enqueue(idle);
    await everbeat.enqueue(idle, undefined, { queue: "to-be-cancelled" });
    return [
      { ids: [id, greeted, randomUUID()], reason: "called off" },
      { queue: "to-be-cancelled", grace: "1s" },
    ];
  },
  "tasks.retry": async () => [{ ids: [stumbled, greeted] }, { errorCode: "NONE" }, { ids: [stumbled], force: true }],
  "tasks.enqueue": async () => [
    { name: "greet", input: "Bo" },
    { name: "unheard-of", inputJson: "12345678901234567890", options: { delay: "1h", uniqueKey: "once" } },
    { name: "unheard-of", options: { uniqueKey: "once" } },
  ],
  "tasks.result": async () => [{ id: greeted, timeout: "10s" }],
  async "tasks.explain"() {
    const { running, claimed } = await silentOwner(everbeat);
    return [greeted, stumbled, ...running, ...claimed, await deadOwner(everbeat)].map((id) => ({ id }));
  },
  "queues.list": async () => [{}],
  "queues.pause": async () => [{ name: "mail" }],
  "queues.resume": async () => [{ name: "mail" }],
  "queues.set": async () => [
    { name: "mail", concurrency: 5, rateLimit: { limit: 100, per: "1m" } },
    { name: "mail", concurrency: null },
  ],
  async status() {
    await quarantined(everbeat);
    await deadOwner(everbeat);
    await raiseAnAlert();
    return [{}, { all: true }];
  },
  async "replicas.list"() {
    await silentOwner(everbeat);
    await deadOwner(everbeat);
    return [{}, { all: true }];
  },
  async "runners.list"() {
    await deadOwner(everbeat);
    return [{}];
  },
  "machines.list": async () => [{}],
  "recovery.state": async () => [{}],
  async "recovery.stale"() {
    await silentOwner(everbeat);
    return [{ after: "0s" }, { after: "0s", state: "claimed", name: "abandoned" }, { queue: "nobody-works-here" }];
  },
  async "recovery.recover"() {
    const { running } = await silentOwner(everbeat);
    await refuse(database, "ended", `new.task_id = '${running[0]}'`);
    return [{ after: "0s", dryRun: true }, { after: "0s", state: "claimed" }, { after: "0s" }];
  },
  async "recovery.confirm"() {
    await beginHold(everbeat.database, { source: "imports", counted: "owners", keptMs: 60_000 });
    return [{}, { source: "imports" }, { source: "nobody" }];
  },
  async "recovery.report-exit"() {
    const [id = ""] = (await silentOwner(everbeat)).running;
    const { replicaId } = await everbeat.tasks.show(id);
    return [
      { replicaId: String(replicaId), signal: "SIGKILL", group: { used: 1, limit: 2, kills: 0 } },
      { replicaId: randomUUID(), exitCode: 1 },
    ];
  },
  async "post-mortems.list"() {
    await deadOwner(everbeat);
    return [{}, { kind: "attempt", limit: 1 }];
  },
  "post-mortems.show": async () => [{ of: await deadOwner(everbeat) }, { of: "1" }],
  async "review.list"() {
    await deadOwner(everbeat);
    return [{}, { ids: [await deadOwner(everbeat)], all: true }];
  },
  "review.mark": async () => [{ ids: [await deadOwner(everbeat), greeted], note: "nothing was sent" }],
  async "quarantine.list"() {
    await quarantined(everbeat);
    return [{}, { name: "abandoned", limit: 1 }];
  },
  async "alerts.list"() {
    await raiseAnAlert();
    return [{}, { open: true, kind: "mass-death", since: new Date(0).toISOString(), limit: 5 }];
  },
  doctor: async () => [{}],
  "schema.show": async () => [{}],
  "schema.migrate": async () => [{}],
};

function raiseAnAlert() {
  return raiseAlert(everbeat.database, massDeath());
}

describe("the answer of each operation fits its schema", () => {
  test.each(Object.keys(OPERATIONS) as OperationName[])("%s", async (name) => {
    const inputs = await INPUTS[name]();
    expect(inputs.length).toBeGreaterThan(0);
    const { answer: schema } = OPERATIONS[name] as unknown as Operation<string, z.ZodType, z.ZodType, unknown>;
    for (const input of inputs) {
      const answer = await perform(everbeat, name, input);
      const read = schema.safeParse(JSON.parse(JSON.stringify(answer)));
      expect(read.success ? "fits" : z.prettifyError(read.error)).toBe("fits");
      // A client that reads the JSON by the schema has what this process had.
      expect(read.data).toEqual(answer);
    }
  });

  test("which one that differs does not", async () => {
    const { queues } = await perform(everbeat, "queues.list", {});
    const schema = OPERATIONS["queues.list"].answer;
    const wrong = queues.map((queue) => ({ ...queue, isPaused: "no", colour: "red" }));
    const read = schema.safeParse({ queues: wrong });
    expect(z.prettifyError(read.error as z.ZodError)).toMatch(/colour[\s\S]*isPaused|isPaused[\s\S]*colour/);
  });
});

describe("an operation that changes nothing needs no more than the right to read", () => {
  const role = `${database.name}_reader`;
  const looks = Object.values(OPERATIONS).flatMap(({ name, changes }) => (changes ? [] : [name]));
  let reader: Everbeat;

  beforeAll(async () => {
    await database.query(`create role ${role} login password 'reader'`);
    for (const grant of GRANTS_TO_READ) await database.query(grant.replace("to reader", `to ${role}`));
    const url = new URL(database.url);
    [url.username, url.password] = [role, "reader"];
    reader = await Everbeat.open({ database: url.href, migrate: false, poolSize: 2, log: "silent" });
  });
  afterAll(async () => {
    await reader.close();
    await database.query(`drop owned by ${role}; drop role ${role}`);
  });

  test.each(looks)("%s", async (name) => {
    for (const input of await INPUTS[name]()) await perform(reader, name, input);
  });

  test("to wait for the result of a task that has not ended, too", async () => {
    const id = await everbeat.enqueue(idle);
    const waiting = perform(reader, "tasks.result", { id, timeout: "1m" });
    waiting.catch(() => {});
    // It has looked, and waits.
    await eventually(async () => (await database.query(`select from ${LISTENING} and usename = '${role}'`)).length > 0);
    await everbeat.tasks.cancel(id);
    await expect(waiting).rejects.toMatchObject({ state: "cancelled" });
  });

  test("and the doctor says so, and finds nothing wrong with it", async () => {
    const { isWell, findings } = await perform(reader, "doctor", {});
    const rights = findings.find(({ check }) => check === "rights");
    expect(rights).toMatchObject({ mark: "warning", found: expect.stringContaining("change nothing") });
    expect(findings.filter(({ mark }) => mark === "wrong")).toEqual([]);
    expect(isWell).toBe(true);
  });

  test("and with that right alone nothing else can be done", async () => {
    await expect(perform(reader, "queues.pause", { name: "mail" })).rejects.toMatchObject({ code: "42501" });
  });
});

describe("an input", () => {
  const refusal = (work: Promise<unknown>) => work.then(() => undefined).catch((error: Error) => error.message);

  test("is refused by the rules of the API, with everything that is wrong with it, before anything is written", async () => {
    const message = await refusal(
      perform(everbeat, "tasks.cancel", { queue: "no spaces", state: "failed", grace: "20d" }),
    );
    expect(message).toMatch(/^The input of tasks\.cancel cannot be used as given:\n/);
    expect(message).toContain("queue: must be 1 to 128 ASCII letters");
    expect(message).toContain("grace: must be a duration");
  });

  test("with an option that is none is refused", async () => {
    const input = { sate: "failed" } as InputOf<"tasks.list">;
    expect(await refusal(perform(everbeat, "tasks.list", input))).toContain("sate");
  });

  test("with ids and a filter is refused, since one of them would be left out", async () => {
    const input = { ids: [greeted], queue: "mail" };
    expect(await refusal(perform(everbeat, "tasks.retry", input))).toContain("ids and filters exclude each other");
  });

  test("that says of no task is refused", async () => {
    expect(await refusal(perform(everbeat, "tasks.cancel", {}))).toContain("it is not said which tasks");
  });

  test("as JSON text is kept to the letter", async () => {
    const { id } = await perform(everbeat, "tasks.enqueue", { name: "greet-exactly", inputJson: '{"n": 1.50}' });
    const [kept] = await everbeat.database.query<{ input: string }>(
      `select input::text from ${everbeat.database.schema}.task where id = $1`,
      [id],
    );
    expect(kept?.input).toBe('{"n": 1.50}');
    const both = { name: "greet", input: 1, inputJson: "2" };
    expect(await refusal(perform(everbeat, "tasks.enqueue", both))).toContain("exclude each other");
    const none = { name: "greet", inputJson: "{" };
    expect(await refusal(perform(everbeat, "tasks.enqueue", none))).toContain("inputJson: is not JSON");
  });
});

test.each(["tasks.lsit", "toString"])("an operation that there is not is not found: %s", async (name) => {
  await expect(perform(everbeat, name as "tasks.list", {})).rejects.toMatchObject({
    code: "OPERATION_NOT_FOUND",
    kind: "not-found",
    message: expect.stringContaining(`There is no operation "${name}"`),
  });
});

describe("recovery by hand", () => {
  test("tells what it would do, what it did, and what the database refused; of both states, or of one", async () => {
    const { running, claimed } = await silentOwner(everbeat);
    const [first = "", second = ""] = running;
    const query = { after: "0s", ids: [...running, ...claimed] } as const;
    const { tasks } = await perform(everbeat, "recovery.stale", query);
    expect(tasks.map(({ id }) => id)).toEqual([...running, ...claimed]);
    const would = await perform(everbeat, "recovery.recover", { ...query, dryRun: true });
    expect(idsOf(would)).toEqual({ dryRun: true, failed: running, requeued: claimed, refused: [] });
    expect((await everbeat.tasks.show(first)).state).toBe("running");
    const one = await perform(everbeat, "recovery.recover", { ...query, state: "claimed" });
    expect(idsOf(one)).toEqual({ dryRun: false, failed: [], requeued: claimed, refused: [] });
    await refuse(database, "ended", `new.task_id = '${first}'`);
    const rest = await perform(everbeat, "recovery.recover", query);
    expect(idsOf(rest)).toEqual({ dryRun: false, failed: [second], requeued: [], refused: [first] });
    expect(rest.refused[0]?.message).toBe("this row is not to be written");
  });

  test("that is ended, or fails, between its two states says which tasks it has failed", async () => {
    const { running, claimed } = await silentOwner(everbeat);
    const query = { after: "0s", ids: [...running, ...claimed] } as const;
    const stopping = new AbortController();
    const progress = ({ step }: Reached) => {
      if (step === "claimed") stopping.abort(new Error("enough"));
    };
    const recovering = perform(everbeat, "recovery.recover", query, { signal: stopping.signal, progress });
    await expect(recovering).rejects.toMatchObject({ code: "HALF_RECOVERED", cause: { message: "enough" } });
    await expect(recovering).rejects.toMatchObject({ failed: expect.arrayContaining(running) });
    const rest = await perform(everbeat, "recovery.recover", query);
    expect(idsOf(rest)).toMatchObject({ failed: [], requeued: claimed });
  });

  function idsOf({ failed, requeued, refused, dryRun }: ValueOf<"recovery.recover">) {
    const ids = (tasks: readonly { readonly id: string }[]) => tasks.map(({ id }) => id);
    return { dryRun, failed: ids(failed), requeued: ids(requeued), refused: ids(refused) };
  }
});

describe("a long operation", () => {
  test("tells how far it has come, and ends between two steps when its signal fires", async () => {
    await everbeat.enqueueMany(idle, Array.from({ length: 1_200 }), { options: { queue: "long" } });
    const reached: string[] = [];
    const enough = new Error("enough");
    const stopping = new AbortController();
    const cancelling = perform(
      everbeat,
      "tasks.cancel",
      { queue: "long" },
      {
        signal: stopping.signal,
        progress({ done, of }) {
          reached.push(`${done} of ${of}`);
          if (done === 500) stopping.abort(enough);
        },
      },
    );
    await expect(cancelling).rejects.toBe(enough);
    expect(reached).toEqual(["0 of 1200", "500 of 1200"]);
    const rest = await perform(everbeat, "tasks.cancel", { queue: "long", state: "pending" });
    expect(rest.counts).toEqual({ cancelled: 700 });
  });

  test("that examines says what it looks at, and ends between two checks", async () => {
    const steps: unknown[] = [];
    const enough = new Error("enough");
    const stopping = new AbortController();
    const progress = ({ step, done }: Reached) => {
      steps.push(step);
      if (done === 1) stopping.abort(enough);
    };
    await expect(perform(everbeat, "doctor", {}, { signal: stopping.signal, progress })).rejects.toBe(enough);
    expect(steps).toEqual(["server", "rights"]);
  });

  test("that waits for a result ends with its signal", async () => {
    const id = await everbeat.enqueue(idle);
    const stopping = new AbortController();
    const waiting = perform(everbeat, "tasks.result", { id, timeout: "1m" }, { signal: stopping.signal });
    const enough = new Error("enough");
    stopping.abort(enough);
    await expect(waiting).rejects.toBe(enough);
    await eventually(async () => (await everbeat.tasks.show(id)).state === "pending");
  });
});

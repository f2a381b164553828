/** No table only grows: each has a rule by which what is old leaves, in docs/operations.md and here. */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { beforeEach, describe, expect, test } from "vitest";
import { Events } from "../../src/events.ts";
import { PassedBy } from "../../src/recovery/passed-by.ts";
import { purgeIfDue, runUpkeep } from "../../src/sql/upkeep.ts";
import { purgeRecord } from "../../src/upkeep/purge-record.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const HOUR_MS = 3_600_000;
const AGES = { historyAgeMs: 24 * HOUR_MS, purgeAgeMs: 24 * HOUR_MS, postMortemAgeMs: 30 * 24 * HOUR_MS };

/** Rows that are this old leave by every rule, those of today by none. */
const [OLD, YOUNG] = ["100 days", "1 minute"];
type Put = (age: string) => Promise<unknown>;
const put =
  (sql: string): Put =>
  (age) =>
    database.query(sql.replaceAll("AGO", `now() - interval '${age}'`).replaceAll("UUID", `'${randomUUID()}'::uuid`));
const ofTask = (sql: string) =>
  put(`with t as (insert into everbeat.task (id, name, queue, priority, run_at, input) values (UUID, 'x', 'x', 0, now(), '1')),
            e as (insert into everbeat.ended (task_id, state, attempt, failures, crashes, ended_at) values (UUID, 'completed', 1, 0, 0, AGO))
       ${sql}`);
const LIVING = "insert into everbeat.replica (id, hostname, pid, version, tasks) values (UUID, 'h', 1, '1', '{}')";
const REPLICA = `insert into everbeat.replica (id, hostname, pid, version, status, seen_at, tasks) values (UUID, 'h', 1, '1', 'dead', AGO, '{}')`;

/** How a row comes into a table that later leaves by its rule. */
const RULES: Record<string, Put> = {
  alert: put(
    "insert into everbeat.alert (kind, subject, message, raised_at, resolved_at) values ('a', 'a', 'a', AGO, AGO)",
  ),
  alert_channel: put("insert into everbeat.alert_channel (name, seen_at) values (UUID, AGO)"),
  alert_delivery: put(
    "insert into everbeat.alert_delivery (alert_id, change, channel, created_at) select 1, 'raised', UUID, AGO",
  ),
  attempt: ofTask(
    "insert into everbeat.attempt (claim_id, task_id, replica_id, attempt, claimed_at, ended_at, outcome) values (nextval('everbeat.claim_id'), UUID, UUID, 1, AGO, AGO, 'failed')",
  ),
  bell: async (age) => {
    if (age === YOUNG) await put(LIVING)(age);
    await put(`insert into everbeat.bell (queue, armed) values ('${age === YOUNG ? "*" : age}', true)`)(age);
  },
  beat_history: put("insert into everbeat.beat_history (replica_id, beat_at) values (UUID, AGO)"),
  blocked_loop: put(
    "insert into everbeat.blocked_loop (replica_id, began_at, seen_at, blocked_ms, tasks) values (UUID, AGO, AGO, 1, '[]')",
  ),
  crash: put(
    "insert into everbeat.crash (replica_id, happened_at, suspects, most, with_most) values (UUID, AGO, 1, 0, 1)",
  ),
  definition: put("insert into everbeat.definition (name, settings, seen_at) values (UUID, '{}', AGO)"),
  ended: ofTask("select"),
  heart: put(`with r as (${REPLICA})
    insert into everbeat.heart (replica_id, interval_ms, promise_ms, session_promise_ms, session_key, epoch, beat_at) values (UUID, 1, 1, 1, 1, 'e', AGO)`),
  followed: put(`with f as (insert into everbeat.follower (id, until) values (UUID, AGO))
    insert into everbeat.followed (topic, follower) values ('task ' || UUID, UUID)`),
  follower: put("insert into everbeat.follower (id, until) values (UUID, AGO)"),
  // What is old is told by what could be seen at a time, however long its transaction took.
  happening: async (age) => {
    await put("insert into everbeat.happening (topic, kind) values ('task ' || UUID, 'x')")(age);
    await put("insert into everbeat.happening_mark (marked_at, last_id) values (AGO, 0)")(age);
  },
  hold: put(
    "insert into everbeat.hold (source, counted, since, renewed_at, kept_for) values (UUID, 'owners', AGO, AGO, '1 minute')",
  ),
  late: put(
    "insert into everbeat.late (claim_id, task_id, replica_id, outcome, arrived_at) values (1, UUID, UUID, 'failed', AGO)",
  ),
  machine: put("insert into everbeat.machine (id, hostname, joined_at) values (UUID, 'h', AGO)"),
  not_purged: async (age) =>
    (age === YOUNG ? ofTask : put)(
      "insert into everbeat.not_purged (task_id, times, rests_until, told_as) values (UUID, 1, AGO, 'x')",
    )(age),
  post_mortem: put(
    "insert into everbeat.post_mortem (kind, happened_at, cause, sentence, evidence) values ('runner', AGO, 'c', 's', '{}')",
  ),
  progress: ofTask("insert into everbeat.progress (claim_id, task_id) values (nextval('everbeat.claim_id'), UUID)"),
  replica: put(REPLICA),
  review: ofTask("insert into everbeat.review (task_id) values (UUID)"),
  runner: put(
    "insert into everbeat.runner (id, replica_id, kind, pid, started_at, beat_at, status, ended_at) values (UUID, UUID, 'thread', 1, AGO, AGO, 'ended', AGO)",
  ),
  suspicion:
    put(`with c as (insert into everbeat.crash (replica_id, happened_at, suspects, most, with_most) values (UUID, AGO, 1, 0, 1))
    insert into everbeat.suspicion (task_id, replica_id, is_charged, is_apart) values (UUID, UUID, true, true)`),
  task: ofTask("select"),
  turn: put(
    "insert into everbeat.turn (service, epoch, taken_at, taken_by, every_ms) values (UUID, 'e', AGO, UUID, 1)",
  ),
  unique_hold: ofTask("insert into everbeat.unique_hold (name, key, task_id) values ('x', UUID, UUID)"),
  unrest: put(
    "insert into everbeat.unrest (kind, machine_id, hostname, replica_id, happened_at) values ('dead', 'm', 'h', UUID, AGO)",
  ),
  waiter: put("insert into everbeat.waiter (task_id, since) values (UUID, AGO)"),
};

/** Tables that do not grow with time, and why; or where their rule is tested. */
const BOUNDED: Record<string, string> = {
  lane: "test/database/lanes.test.ts",
  queue: "test/database/lanes.test.ts",
  rate: "test/database/lanes.test.ts",
  commit_check: "a row leaves with the transaction that wrote it (transactions)",
  ended_span: "as many as the pages of `ended`",
  happening_mark: "one in five seconds, of the last ten minutes (following)",
  epoch_marker: "one row",
  listening: "one row",
  migration: "one row per migration",
  parked: "tasks that have not ended",
  ready: "tasks that have not ended",
  routines: "one row",
  running: "tasks that have not ended",
  upkeep: "one row",
};

async function tables(): Promise<string[]> {
  const rows = await database.query<{ name: string }>(
    "select tablename as name from pg_tables where schemaname = 'everbeat' order by 1",
  );
  return rows.map(({ name }) => name);
}

async function purgeAll(passedBy = passingBy(fail)): Promise<boolean> {
  await database.query("update everbeat.upkeep set purged_at = '-infinity'");
  await purgeIfDue(everbeat.database, { maxAgeMs: 7 * 24 * HOUR_MS, maxCount: undefined }, 100);
  return purgeRecord(everbeat.database, AGES, passedBy);
}
function fail(error: unknown): never {
  throw error;
}
/** Tells what was passed by. */
function passingBy(tell: (error: unknown) => void, part = "purges"): PassedBy {
  const events = new Events(fail);
  events.on("upkeep.passed-by", ({ error }) => tell(error));
  return new PassedBy({ service: "upkeep", part }, { database: everbeat.database, events, onError: fail });
}

test("every table has a rule, and the documentation names it", async () => {
  const page = readFileSync("docs/operations.md", "utf8");
  const documented = [...page.matchAll(/^\| (`\w+`(?:, `\w+`)*) \|/gm)].flatMap(([, names = ""]) =>
    names.split(", ").map((name) => name.replaceAll("`", "")),
  );
  expect([...Object.keys(RULES), ...Object.keys(BOUNDED)].sort()).toEqual(await tables());
  expect(documented.sort()).toEqual(await tables());
});

describe("what is old leaves, and nothing else:", () => {
  beforeEach(async () => {
    const names = Object.keys(RULES).map((table) => `everbeat.${table}`);
    await database.query(`truncate ${names.join(", ")}, everbeat.ready, everbeat.happening_mark`);
  });

  test.each(Object.entries(RULES))("%s", async (table, place) => {
    const count = async () => (await database.query(`select from everbeat.${table}`)).length;
    await place(OLD);
    await place(YOUNG);
    expect(await count()).toBe(2);
    expect(await purgeAll()).toBe(true);
    expect(await count()).toBe(1);
    await purgeAll();
    expect(await count()).toBe(1);
  });

  test("alerts that nobody has resolved, too", async () => {
    await put(
      "insert into everbeat.alert (kind, subject, message, raised_at, last_raised_at) values ('a', 'a', 'a', AGO, AGO)",
    )(OLD);
    await purgeAll();
    expect(await database.query("select from everbeat.alert")).toEqual([]);
  });

  describe("an open alert stays while its cause stands:", () => {
    const raise = (kind: string, subject: string, details: object = {}) =>
      put(`insert into everbeat.alert (kind, subject, message, details, raised_at, last_raised_at)
           values ('${kind}', '${subject}', 'a', '${JSON.stringify(details)}', AGO, AGO)`)(OLD);
    const left = async () => {
      await purgeAll();
      const alerts = await database.query<{ subject: string }>("select subject from everbeat.alert order by 1");
      return alerts.map(({ subject }) => subject);
    };
    const setAside = async (name: string, id: string) => {
      await database.query(
        "insert into everbeat.task (id, name, queue, priority, run_at, input) values ($1, $2, 'x', 0, now(), '1')",
        [id, name],
      );
      await database.query(
        `insert into everbeat.ended (task_id, state, error_code, attempt, failures, crashes, ended_at)
         values ($1, 'failed', 'NOT_CLAIMABLE', 0, 0, 0, now())`,
        [id],
      );
    };

    test("a queue whose settings cannot be used, until they are changed", async () => {
      await database.query("insert into everbeat.queue (name, paused, trouble) values ('bad', true, 'a rate of 0')");
      for (const queue of ["bad", "well"]) await raise("queue-not-usable", queue);
      expect(await left()).toEqual(["bad"]);
      await everbeat.queues.set("bad", { concurrency: 1 });
      expect(await database.query("select from everbeat.alert where resolved_at is null")).toEqual([]);
      await everbeat.queues.set("bad", { concurrency: null });
    });

    test("tasks that were set aside, as long as one of that name is on record", async () => {
      await setAside("another of its name", randomUUID());
      const lost = randomUUID();
      await setAside("without its record", lost);
      await database.query("delete from everbeat.task where id = $1", [lost]);
      await raise("not-claimable", "another of its name", { task: randomUUID() });
      await raise("not-claimable", "without its record", { task: lost });
      await raise("not-claimable", "gone with its tasks", { task: randomUUID() });
      expect(await left()).toEqual(["another of its name", "without its record"]);
    });

    test("a loop that is blocked, and its record", async () => {
      const [alive, ended] = [randomUUID(), randomUUID()];
      await put(LIVING.replace("UUID", `'${alive}'`))(OLD);
      await database.query(
        `insert into everbeat.runner (id, replica_id, kind, pid, started_at, beat_at, status, ended_at)
         values ($1, $2, 'thread', 1, now(), now(), 'ended', now())`,
        [ended, alive],
      );
      const block = (replica: string, runner = "null", turned = "null") =>
        put(`insert into everbeat.blocked_loop (replica_id, runner_id, began_at, seen_at, blocked_ms, tasks, ended_at)
             values ('${replica}', ${runner}, AGO, AGO, 1, '[]', ${turned})`)(OLD);
      await block(alive);
      await block(alive, "null", "AGO");
      await block(alive, `'${ended}'`);
      await block(randomUUID());
      const [lasting] = await database.query<{ id: string }>(
        "select id from everbeat.blocked_loop where replica_id = $1 and runner_id is null and ended_at is null",
        [alive],
      );
      await raise("loop-blocked", alive, { blockedLoop: Number(lasting?.id) });
      expect(await left()).toEqual([alive]);
      const loops = "select replica_id, runner_id, ended_at from everbeat.blocked_loop";
      expect(await database.query(loops)).toEqual([{ replica_id: alive, runner_id: null, ended_at: null }]);
    });

    test("what is passed by again: it is raised again", async () => {
      const told: unknown[] = [];
      const passedBy = passingBy((error) => told.push(error));
      for (let times = 0; times < 3; times++) await passedBy.tell("the recovery of task 1", new Error("not this one"));
      expect(told).toHaveLength(1);
      await put("update everbeat.alert set raised_at = AGO, last_raised_at = AGO")(OLD);
      expect(await left()).toEqual([]);
      await passedBy.tell("the recovery of task 1", new Error("not this one"));
      expect(await database.query("select subject from everbeat.alert")).toEqual([
        { subject: "the recovery of task 1" },
      ]);
    });
  });

  test("a definition stays while a worker has it, or a task of its name waits", async () => {
    const define = (name: string) =>
      put(`insert into everbeat.definition (name, settings, seen_at) values ('${name}', '{}', AGO)`)(OLD);
    for (const name of ["at-work", "waiting", "forgotten"]) await define(name);
    await database.query(
      `insert into everbeat.replica (id, hostname, pid, version, tasks) values (gen_random_uuid(), 'h', 1, '1', '{at-work}')`,
    );
    await database.query("select everbeat.enqueue('waiting', '1')");
    await purgeAll();
    // The worker leaves, and what it had was seen today.
    await database.query("delete from everbeat.replica");
    await purgeAll();
    const left = await database.query<{ name: string }>("select name from everbeat.definition order by 1");
    expect(left.map(({ name }) => name)).toEqual(["at-work", "waiting"]);
  });

  test("a bell stays while a worker serves its queue", async () => {
    await database.query(
      "insert into everbeat.bell (queue, armed) values ('*', true), ('mail', true), ('gone', false)",
    );
    await database.query(
      `insert into everbeat.replica (id, hostname, pid, version, tasks, queues)
       values (gen_random_uuid(), 'h', 1, '1', '{}', '{mail}'), (gen_random_uuid(), 'h', 1, '1', '{}', null)`,
    );
    await purgeAll();
    const bells = await database.query<{ queue: string }>("select queue from everbeat.bell order by 1");
    expect(bells.map(({ queue }) => queue)).toEqual(["*", "mail"]);
  });

  test("a unique key whose task somebody has deleted by hand, and no key whose task is there or that counts on without it", async () => {
    const keyed = (key: string) =>
      database.query("select everbeat.enqueue('keyed', '1', $1)", [
        JSON.stringify({ uniqueKey: key, uniqueFor: 3_600_000 }),
      ]);
    for (const key of ["deleted", "pending", "purged"]) await keyed(key);
    await database.query(
      `delete from everbeat.ready r using everbeat.unique_hold h where h.task_id = r.task_id and h.key <> 'pending'`,
    );
    await database.query(
      `delete from everbeat.task t using everbeat.unique_hold h where h.task_id = t.id and h.key <> 'pending'`,
    );
    await database.query(
      "update everbeat.unique_hold set ended_as = 'completed', created_at = now() where key = 'purged'",
    );
    await purgeAll();
    const holds = await database.query<{ key: string }>("select key from everbeat.unique_hold order by 1");
    expect(holds.map(({ key }) => key)).toEqual(["pending", "purged"]);
  });

  test("waiters, also where upkeep fails as a whole", async () => {
    await RULES["waiter"]?.(OLD);
    await database.query("alter function everbeat.force_cancels rename to forced");
    const upkeep = runUpkeep(everbeat.database, 100);
    await expect(upkeep).rejects.toThrow("force_cancels");
    await database.query("alter function everbeat.forced rename to force_cancels");
    await purgeRecord(everbeat.database, AGES, passingBy(fail));
    expect(await database.query("select from everbeat.waiter")).toEqual([]);
  });

  test("in batches, and what cannot be removed does not keep the rest", async () => {
    const many =
      "insert into everbeat.alert (kind, subject, message, raised_at, last_raised_at) select 'a', n::text, 'a', AGO, AGO";
    await put(`${many} from generate_series(1, 2500) n`)(OLD);
    await RULES["machine"]?.(OLD);
    await RULES["late"]?.(OLD);
    await database.query(
      "create function everbeat.no() returns trigger language plpgsql as $$ begin raise exception 'not this one'; end $$",
    );
    await database.query(
      "create trigger no before delete on everbeat.machine for each row execute function everbeat.no()",
    );
    const errors: unknown[] = [];
    const rounds: boolean[] = [];
    const passedBy = passingBy((error) => errors.push(error));
    do {
      rounds.push(await purgeAll(passedBy));
      // Sweeps go on between, and most of them remove nothing.
      await passingBy(fail, "stalls").settle();
    } while (!rounds.at(-1));
    expect(rounds).toEqual([false, false, true]);
    expect(errors.map(String)).toEqual([expect.stringContaining("not this one")]);
    expect(await database.query("select from everbeat.late")).toEqual([]);
    const left = await database.query("select kind, subject, resolved_at from everbeat.alert");
    expect(left).toEqual([
      { kind: "upkeep-passed-by", subject: expect.stringMatching(/^removing old machines: .{36}$/), resolved_at: null },
    ]);
  });
});

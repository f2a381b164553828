/** Following replicas, and what is told of transactions that stay open. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Everbeat } from "../../src/everbeat.ts";
import type { ReplicaUpdate } from "../../src/following/follow.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { followingOn, next, steps } from "../support/following.ts";

const { everbeat, database } = await openTestEverbeat();
const { another, tellNobody, written } = followingOn({ everbeat, database });

describe("replicas are followed", () => {
  test("all of them, or one: when they join, leave, fall silent, die and come back", async () => {
    const all = (await another()).followReplicas();
    await next(all);
    const worker = await everbeat.work([steps], { handleSignals: false });
    const { replicaId } = worker;
    expect(await next(all)).toMatchObject({ kind: "joined", replicaId, hostname: expect.any(String) });
    const one = (await another()).followReplicas({ replicaId });
    const stranger = (await another()).followReplicas({ replicaId: randomUUID() as typeof replicaId });
    await Promise.all([next(one), next(stranger)]);
    const silent =
      "insert into everbeat.unrest (kind, machine_id, hostname, replica_id) values ('stale', 'm', 'h', $1)";
    await database.query(silent, [replicaId]);
    await worker.stop();
    for (const change of ["status = 'dead', died_at = now()", "came_back_at = now(), came_back_how = 'fenced'"]) {
      await database.query(`update everbeat.replica set ${change} where id = $1`, [replicaId]);
    }
    for (const stream of [all, one]) {
      const told: ReplicaUpdate[] = [];
      while (told.at(-1)?.kind !== "rejoined") told.push(await next(stream));
      expect(told.map(({ kind }) => kind)).toEqual(["stale", "draining", "offline", "dead", "rejoined"]);
      expect(told.every((update) => "replicaId" in update && update.replicaId === replicaId)).toBe(true);
      await stream.return?.();
    }
    const untold = next(stranger);
    await stranger.return?.();
    // Nothing of others.
    await expect(untold).rejects.toThrow("the stream is over");
  });

  const join = async () => {
    const id = randomUUID() as NonNullable<Parameters<Everbeat["followReplicas"]>[0]>["replicaId"];
    await database.query(
      "insert into everbeat.replica (id, hostname, pid, version, tasks) values ($1, 'h', 1, '0', '{}')",
      [id],
    );
    return { replicaId: id, change: `update everbeat.replica set status = 'dead', died_at = now() where id = '${id}'` };
  };

  test("also a death that was under way when they began to be followed", async () => {
    const { replicaId, change } = await join();
    const client = new pg.Client(database.url);
    await client.connect();
    onTestFinished(() => client.end());
    await client.query("begin");
    await client.query(change);
    const stream = (await another()).followReplicas({ replicaId });
    const first = await next(stream);
    expect(first).toMatchObject({ kind: "state", missed: false });
    await client.query("commit");
    // So is a reader who comes back with the position from before.
    const back = (await another()).followReplicas({ replicaId, from: first.position });
    for (const reader of [stream, back]) {
      expect(await next(reader)).toMatchObject({ kind: "dead", replicaId, hostname: "h" });
      await reader.return?.();
    }
  });

  test("also where nothing of it was written, and once", async () => {
    await tellNobody();
    const all = (await another()).followReplicas();
    await next(all);
    const { replicaId, change } = await join();
    expect(await next(all)).toMatchObject({ kind: "joined", replicaId });
    await database.query(change);
    expect(await next(all)).toMatchObject({ kind: "dead", replicaId });
    await database.query("update everbeat.replica set came_back_at = now(), came_back_how = 'fenced' where id = $1", [
      replicaId,
    ]);
    expect(await next(all)).toMatchObject({ kind: "rejoined", replicaId });
    await all.return?.();
    expect(await written(`replica ${replicaId}`)).toEqual([]);
  });

  test("from behind each change that nobody has written, also of those of one transaction", async () => {
    const all = (await another()).followReplicas();
    await next(all);
    const joined = [await join(), await join()].map(({ replicaId }) => replicaId);
    for (const replicaId of joined) expect(await next(all)).toMatchObject({ kind: "joined", replicaId });
    await tellNobody();
    const change = (set: string) =>
      database.query(`update everbeat.replica set ${set} where id = any ($1::uuid[])`, [joined]);
    await change("status = 'dead', died_at = now()");
    const told = [await next(all), await next(all)] as [ReplicaUpdate, ReplicaUpdate];
    expect(told.map(({ kind }) => kind)).toEqual(["dead", "dead"]);
    const [first, second] = told.map(({ position }) => everbeat.followReplicas({ from: position })) as [
      ReturnType<Everbeat["followReplicas"]>,
      ReturnType<Everbeat["followReplicas"]>,
    ];
    const { replicaId } = told[1] as { replicaId: string };
    expect(await next(first)).toMatchObject({ kind: "dead", replicaId });
    const behind = [next(first), next(second)];
    await eventually(
      async () =>
        (await database.query("select from everbeat.followed where topic = 'replica *' and left_at is null")).length >
        1,
    );
    await change("came_back_at = now(), came_back_how = 'fenced'");
    for (const one of behind) expect((await one).kind).toBe("rejoined");
    for (const stream of [all, first, second]) await stream.return?.();
  });

  test("by an id that is one", () => {
    expect(() => everbeat.followReplicas({ replicaId: "*" as never })).toThrow("replicaId: must be a replica's id");
  });
});

describe("a transaction that stays open", () => {
  const say = (client: { query(text: string): Promise<unknown> }, topic: string, kind: string) =>
    client.query(
      `select everbeat.tell_followers('${kind}', array['${topic}', 'replica *'], null, array_fill('{"replicaId":"r","hostname":"${topic}"}'::json, array[2]))`,
    );
  async function open(): Promise<pg.Client> {
    const client = new pg.Client(database.url);
    await client.connect();
    onTestFinished(() => client.end());
    await client.query("begin");
    return client;
  }

  test("is told of when it commits: nothing is missed, and nothing told twice", async () => {
    const stream = everbeat.followReplicas();
    expect(await next(stream)).toMatchObject({ kind: "state", missed: false });
    const [slow, slower] = [await open(), await open()];
    await say(slow, "slow", "stale");
    await say(slower, "slower", "stale");
    const told: ReplicaUpdate[] = [];
    const tell = async (topic: string) => {
      await say(database, topic, "joined");
      told.push(await next(stream));
    };
    for (const topic of ["a", "b", "c"]) await tell(topic);
    await slower.query("commit");
    told.push(await next(stream));
    await tell("d");
    await slow.query("commit");
    told.push(await next(stream));
    await tell("e");
    const hosts = (updates: readonly ReplicaUpdate[]) =>
      updates.map((update) => "hostname" in update && update.hostname);
    expect(hosts(told)).toEqual(["a", "b", "c", "slower", "d", "slow", "e"]);
    // From each position the rest follows, also from those at which others were still under way.
    for (const [at, { position }] of told.slice(0, -1).entries()) {
      const resumed = everbeat.followReplicas({ from: position });
      const rest: ReplicaUpdate[] = [];
      while (rest.length < told.length - 1 - at) rest.push(await next(resumed));
      // Things that have nothing to do with each other may come in another order.
      expect(hosts(rest).toSorted()).toEqual(hosts(told.slice(at + 1)).toSorted());
      await resumed.return?.();
    }
    await stream.return?.();
  });

  test("costs the others a probe, and not a walk over what has happened since", async () => {
    const client = new pg.Client(database.url);
    await client.connect();
    onTestFinished(() => client.end());
    const long = await open();
    await long.query("select pg_current_xact_id()");
    const follower = randomUUID();
    await database.query("select everbeat.follow_topics($1, array['busy'], 300000)", [follower]);
    const seen = async () => (await database.query<{ s: string }>("select pg_current_snapshot()::text as s"))[0]?.s;
    for (let times = 0; times < 20; times++) {
      await database.query(
        "insert into everbeat.happening (topic, kind) select 'busy', 'x' from generate_series(1, 500)",
      );
    }
    const rowsRead = async (snapshot: string | undefined) => {
      const { rows } = await client.query(
        `explain (analyze, buffers, format json) select * from everbeat.happenings_since('${follower}', '${snapshot}', 100)`,
      );
      return rows[0]["QUERY PLAN"][0].Plan["Shared Hit Blocks"] + rows[0]["QUERY PLAN"][0].Plan["Shared Read Blocks"];
    };
    const now = await seen();
    expect(now).toMatch(/^(\d+):(\d+):\1/);
    await rowsRead(now);
    expect(await rowsRead(now)).toBeLessThan(30);
    // What it would be without: from the beginning of that transaction on.
    expect(await rowsRead(`${now?.split(":")[0]}:${now?.split(":")[0]}:`)).toBeGreaterThan(60);
    await database.query("delete from everbeat.happening where topic = 'busy'");
  });
});

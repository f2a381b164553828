/** How a worker starts: nothing is taken before its heart is heard, or a session stands in for that. */
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery } from "../../src/config/recovery-options.ts";
import { BegunCount } from "../../src/heart/begun-count.ts";
import { steadyNowMs } from "../../src/heart/clock.ts";
import { SharedDeadlines } from "../../src/heart/deadlines.ts";
import { startHeart } from "../../src/heart/heart.ts";
import type { HeartNews } from "../../src/heart/heart-loop.ts";
import { heartPlanOf } from "../../src/heart/heart-plan.ts";
import { registerReplica } from "../../src/sql/replicas.ts";
import { newReplicaId } from "../../src/task/ids.ts";
import { openCrashDatabase, openThrough } from "../support/crash-database.ts";
import { startCuttingProxy } from "../support/cutting-proxy.ts";
import { eventually } from "../support/eventually.ts";
import { SCALED, startWorker, task } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 60_000 });

const heartSessions =
  "pg_stat_activity where application_name = 'everbeat heart' and datname = current_database() and pid <> pg_backend_pid()";

describe("a worker that starts", () => {
  test("where none can stand in for its heart takes nothing before its first beat is in, with a session that can tell of its end", async () => {
    const database = await openCrashDatabase();
    const proxy = await startCuttingProxy(database.url);
    const id = await database.everbeat.enqueue(task("quick"), {});
    const unheard = proxy.cutBefore("listen ");
    const beat = proxy.holdBefore(".beat(");
    const starting = startWorker({ url: proxy.url, tasks: [{ handler: "quick" }] });
    await unheard;
    const held = await beat;
    expect(proxy.asked("claim_tasks(")).toBe(0);
    held.deliver();
    await starting;
    await database.everbeat.result(id, { timeout: 30_000 });
    const [order] = await database.query(
      `select e.claimed_at >= min(b.beat_at) as "isHeardFirst", h.session_epoch = h.epoch as "hasSession"
       from everbeat.ended e join everbeat.beat_history b using (replica_id) join everbeat.heart h using (replica_id)
       group by e.claimed_at, h.session_epoch, h.epoch`,
    );
    expect(order).toEqual({ isHeardFirst: true, hasSession: true });
  });

  test("is not ended for a main thread that is blocked before its heart beats, as long as nothing has begun", async () => {
    const database = await openCrashDatabase();
    const folder = await mkdtemp(join(tmpdir(), "everbeat-late-heart-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const support = (file: string) => fileURLToPath(new URL(`../support/${file}`, import.meta.url));
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["--import", support("heart-starts-late.js"), support("blocked-at-start.js"), database.url],
      { env: { ...process.env, HEART_BEGINS_AT: join(folder, "begun") }, timeout: 60_000 },
    );
    expect(stdout.trim()).toBe("done");
  });

  test.each(["definition", "machine"])(
    "and cannot be registered says why, and leaves no heart behind (no table %s)",
    async (table) => {
      const database = await openCrashDatabase();
      const everbeat = await openThrough(database.url);
      await database.query(`alter table everbeat.${table} rename to elsewhere`);
      await expect(everbeat.work([task("quick")])).rejects.toMatchObject({ code: "42P01" });
      await eventually(async () => (await database.count(heartSessions)) === 0, { within: 20_000 });
      await eventually(async () => (await database.count("unnest(everbeat.held_sessions())")) === 0, {
        within: 20_000,
      });
      // Once that is put right, the next try succeeds.
      await database.query(`alter table everbeat.elsewhere rename to ${table}`);
      const { replicaId } = await everbeat.work([task("quick")], { handleSignals: false });
      const beating = await eventually(() => database.replica(replicaId), { until: ({ vitals }) => vitals !== null });
      expect(beating).toMatchObject({ status: "online", vitals: { inHand: 0 } });
    },
  );

  test("beside another in the same process does so with the same session, which is asked one thing at a time", async () => {
    const database = await openCrashDatabase();
    const everbeat = await openThrough(database.url);
    const warnings: string[] = [];
    const onWarning = ({ message }: Error) => void warnings.push(message);
    process.on("warning", onWarning);
    onTestFinished(() => void process.off("warning", onWarning));
    const works = [1, 2, 3].map(() => everbeat.work([task("quick")], { handleSignals: false }));
    const ids = (await Promise.all(works)).map(({ replicaId }) => replicaId);
    for (const id of ids) await eventually(() => database.replica(id), { until: ({ vitals }) => vitals !== null });
    // Each heart its own, and the session for the notices none any more.
    await eventually(async () => (await database.count("unnest(everbeat.held_sessions())")) === ids.length);
    expect(warnings).toEqual([]);
  });

  test("while the database is away says so", async () => {
    const database = await openCrashDatabase();
    const proxy = await startCuttingProxy(database.url);
    const everbeat = await openThrough(proxy.url);
    proxy.close();
    const failure = () =>
      everbeat.work([task("quick")]).then(
        () => "none",
        (error: unknown) => (error as { code?: string }).code,
      );
    // The first to come may still meet the connection that was open.
    await eventually(async () => (await failure()) === "DATABASE_UNAVAILABLE", { within: 20_000 });
    expect(await database.count("everbeat.replica")).toBe(0);
  });
});

test("a heart that is told of very many runners, very often, beats on in the little room that it has", async () => {
  const { everbeat, query } = await openCrashDatabase();
  const settings = checkRecovery(
    { ...SCALED, runningStaleThreshold: 40_000, claimedStaleThreshold: 40_000 },
    new Problems(),
  );
  const [id, plan, news] = [newReplicaId(), heartPlanOf(settings), [] as HeartNews[]];
  const who = { id, machineId: "m", hostname: "h", pid: 1, version: "0", tasks: ["t"], queues: undefined };
  await registerReplica(everbeat.database, { ...who, recovery: settings, promise: plan.promise });
  const heart = startHeart({
    ...{ database: everbeat.database, replicaId: id, plan, vanishedAfterMs: 40_000, leaseFd: undefined },
    ...{
      blockedLoop: settings.blockedLoop,
      deadlines: new SharedDeadlines(),
      begun: new BegunCount(),
      inHand: () => 0,
    },
    onNews: (told) => news.push(told),
  });
  onTestFinished(() => heart.stop());
  heart.begin(steadyNowMs());
  const runners = Array.from({ length: 1_000 }, () => ({
    ...({ id: newReplicaId() as string, kind: "process", pid: 1, status: "busy", claims: [] } as const),
    ...{ startedAtMs: steadyNowMs(), heardAtMs: steadyNowMs(), vitals: { rss: 1, note: "x".repeat(500) } },
  }));
  const telling = setInterval(() => heart.carry(runners), 50);
  onTestFinished(() => clearInterval(telling));
  const heardAt = async () => {
    const [row] = await query<{ at: Date; told: number }>(
      "select beat_at as at, (select count(*)::int from everbeat.runner) as told from everbeat.heart where replica_id = $1",
      [id],
    );
    return { at: row?.at.getTime() ?? 0, told: row?.told };
  };
  for (let beats = 0; beats < 10; beats++) {
    const { at } = await heardAt();
    await eventually(async () => (await heardAt()).at > at, { within: 20_000 });
  }
  expect((await heardAt()).told).toBe(1_000);
  expect(news).toEqual([{ kind: "beating", hasSession: true }]);
});

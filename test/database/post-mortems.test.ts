/** Post-mortems as they are kept: of runners, of what is asked for, and for how long. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { Events } from "../../src/events.ts";
import { PassedBy } from "../../src/recovery/passed-by.ts";
import { PostMortems } from "../../src/recovery/post-mortems.ts";
import { type PostMortemKind, writePostMortems } from "../../src/sql/post-mortems.ts";
import { defineTask } from "../../src/task/define-task.ts";
import type { ClaimId, ReplicaId, TaskId } from "../../src/task/ids.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { refuse } from "../support/refusing.ts";

const { everbeat, database } = await openTestEverbeat();
const failures: string[] = [];
const events = new Events(() => {});
events.on("post-mortem.failed", ({ doing }) => failures.push(doing));
const told = { cause: "killed", sentence: "The process was killed.", evidence: ["its process was ended by SIGKILL"] };
const DEATH = {
  ...{ machineId: "m", hostname: "h", silentForMs: 1_000, vitals: null },
  because: "session-lost",
} as const;

describe("post-mortems", () => {
  test("of a runner say how it ended, and of which task", async () => {
    const postMortems = new PostMortems({ database: everbeat.database, events });
    const subject = {
      ...{ runnerId: randomUUID(), replicaId: randomUUID() as ReplicaId, taskId: randomUUID() as TaskId },
      ...{ claimId: "7" as ClaimId, name: "resize", hostname: "host-7" },
    };
    const concluded = await postMortems.writeRunner([subject], {
      ...{ kind: "runner", because: "exited", exitCode: null, signal: "SIGABRT", phase: "resizing" },
      stderr: ["FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory"],
    });
    expect(concluded.cause).toBe("heap-out-of-memory");
    for (const of of [subject.runnerId, subject.taskId]) {
      const [row] = await everbeat.recovery.postMortems({ of });
      expect(row).toMatchObject({ kind: "runner", ...subject, ...concluded });
      expect(row?.evidence).toContain("last phase: resizing");
    }
    expect(failures).toEqual([]);
  });

  test("of a runner are concluded also where they cannot be written, and then nobody asks for a while", async () => {
    const postMortems = new PostMortems({ database: everbeat.database, events });
    await database.query("alter table everbeat.post_mortem rename to post_mortem_away");
    const evidence = { kind: "runner", because: "exited", exitCode: 3 } as const;
    expect((await postMortems.writeRunner([{ runnerId: "r" }], evidence)).cause).toBe("exited");
    expect(failures).toEqual(["writing the post-mortem of a runner"]);
    await postMortems.writeRunner([{ runnerId: "r" }], evidence);
    expect(failures).toHaveLength(1);
    await database.query("alter table everbeat.post_mortem_away rename to post_mortem");
  });

  test("are found by kind, cause, number and subject, the latest first", async () => {
    const replicaId = randomUUID() as ReplicaId;
    await writePostMortems(everbeat.database, [
      { ...told, kind: "replica", replicaId, hostname: "host-7" },
      { ...told, kind: "attempt", replicaId, taskId: randomUUID() as TaskId, claimId: "8" as ClaimId, name: "resize" },
    ]);
    const found = await everbeat.recovery.postMortems({ cause: "killed" });
    expect(found.map(({ kind }) => kind)).toEqual(["attempt", "replica"]);
    expect(await everbeat.recovery.postMortems({ of: replicaId })).toMatchObject([{ kind: "replica", replicaId }]);
    expect(await everbeat.recovery.postMortems({ of: found[0]?.id ?? "" })).toEqual([found[0]]);
    expect(await everbeat.recovery.postMortems({ kind: "runner", cause: "killed" })).toEqual([]);
    // Written again, as by a reaper that takes over, it stays one.
    await writePostMortems(everbeat.database, [{ ...told, kind: "replica", replicaId }]);
    expect(await everbeat.recovery.postMortems({ of: replicaId })).toHaveLength(1);
    await expect(everbeat.recovery.postMortems({ of: "yesterday" })).rejects.toThrow(
      /number of a post-mortem or the id/,
    );
  });

  test("of a process that its parent saw end keep any exit code, also one of Windows", async () => {
    const windows = [0xc000_0005, 0xffff_ffff];
    for (const exitCode of windows) {
      const { replicaId, claim } = handClaimer(everbeat.database, ["exiting"]);
      await everbeat.enqueue(defineTask({ name: "exiting", run: () => 1 }), undefined);
      await claim();
      const report = await everbeat.recovery.reportExit(replicaId, { exitCode });
      expect(report).toMatchObject({ verdict: "dead", recovered: [{ name: "exiting" }] });
      const [row] = await everbeat.recovery.postMortems({ of: replicaId });
      expect(row).toMatchObject({
        evidence: expect.arrayContaining([expect.stringContaining(`exit code ${exitCode}`)]),
      });
    }
  });

  test("of attempts that cannot be written keep neither those of others from being written, nor that of a runner", async () => {
    const postMortems = new PostMortems({ database: everbeat.database, events });
    const replicaId = randomUUID() as ReplicaId;
    const attempts = [11, 12, 13, 14].map((claim) => ({
      ...{ replicaId, taskId: randomUUID() as TaskId, claimId: `${claim}` as ClaimId, name: "resize" },
      part: "its part in it: none",
    }));
    const [first, bad, ...others] = attempts;
    await refuse(database, "post_mortem", `new.task_id = '${bad?.taskId}' or new.runner_id = 'bad'`);
    failures.length = 0;
    await postMortems.writeAttempts({ replicaId, ...DEATH }, attempts);
    const written = async (kind: PostMortemKind) =>
      (await everbeat.recovery.postMortems({ kind })).filter((row) => row.replicaId === replicaId);
    const claims = (await written("attempt")).map(({ claimId }) => claimId);
    expect(claims.toSorted()).toEqual([first, ...others].map((attempt) => attempt?.claimId));
    expect(failures).toEqual([expect.stringContaining(bad?.taskId ?? "")]);
    const evidence = { kind: "runner", because: "exited", exitCode: 3 } as const;
    for (const runnerId of ["bad", "good"]) await postMortems.writeRunner([{ runnerId, replicaId }], evidence);
    expect(await written("runner")).toMatchObject([{ runnerId: "good" }]);
    expect(failures).toHaveLength(2);
  });

  describe("that wait for a lock", () => {
    /** A transaction that has written these and stays open, so that whoever writes them waits for it. */
    async function holding(...held: Parameters<typeof writePostMortems>[1]) {
      const client = new pg.Client(database.url);
      await client.connect();
      onTestFinished(() => client.end());
      await client.query("begin");
      for (const { kind, replicaId, claimId } of held)
        await client.query(
          `insert into everbeat.post_mortem (kind, replica_id, claim_id, happened_at, cause, sentence, evidence)
           values ($1, $2, $3, now(), 'unknown', 'Written by hand.', '{}')`,
          [kind, replicaId, claimId ?? null],
        );
      return client;
    }
    const evidence = { kind: "runner", because: "exited", exitCode: 3 } as const;

    test("of attempts keep no others from being written, neither beside them nor afterwards", async () => {
      const postMortems = new PostMortems({ database: everbeat.database, events });
      const replicaId = randomUUID() as ReplicaId;
      const attempts = [201, 202, 203, 204].map((claim) => ({
        ...{ replicaId, taskId: randomUUID() as TaskId, claimId: `${claim}` as ClaimId, name: "resize" },
        part: "its part in it: none",
      }));
      await holding({ ...told, kind: "attempt", replicaId, claimId: "202" as ClaimId });
      failures.length = 0;
      await postMortems.writeAttempts({ replicaId, ...DEATH }, attempts);
      await postMortems.writeRunner([{ runnerId: "after", replicaId }], evidence);
      const rows = (await everbeat.recovery.postMortems()).filter((row) => row.replicaId === replicaId);
      expect(rows.map(({ claimId, runnerId }) => claimId ?? runnerId).toSorted()).toEqual([
        "201",
        "203",
        "204",
        "after",
      ]);
      expect(failures).toEqual([expect.stringContaining(attempts[1]?.taskId ?? "")]);
    });

    test("of a replica are passed by, and written when the lock is gone; those of others are written at once", async () => {
      const replicas = Array.from({ length: 3 }, () => randomUUID() as ReplicaId);
      await database.query(
        `insert into everbeat.replica (id, hostname, pid, version, tasks, status, died_at, death)
         select id, 'h', 1, '0', '{}', 'dead', now(), '{}' from unnest($1::uuid[]) id`,
        [replicas],
      );
      const [waiting = randomUUID() as ReplicaId, ...others] = replicas;
      const holder = await holding({ ...told, kind: "replica", replicaId: waiting });
      failures.length = 0;
      const heldUp: unknown[] = [];
      const passedBy = new PassedBy(
        { service: "sweep", part: "post-mortems" },
        { database: everbeat.database, events, onError: (error) => void heldUp.push(error) },
      );
      const postMortems = new PostMortems({ database: everbeat.database, events });
      const examined = async () => [...(await postMortems.examineDead(replicas, passedBy)).keys()].toSorted();
      expect(await examined()).toEqual(others.toSorted());
      expect(heldUp).toMatchObject([{ code: "55P03" }]);
      expect(failures).toEqual([]);
      await holder.query("rollback");
      expect(await examined()).toEqual(replicas.toSorted());
    });

    test("of a runner are concluded all the same, and the next one is written", async () => {
      const postMortems = new PostMortems({ database: everbeat.database, events });
      await database.query(
        `create function public.waits() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(4712); return new; end $$`,
      );
      onTestFinished(() => void database.query("drop function public.waits() cascade"));
      await database.query(
        "create trigger waits before insert on everbeat.post_mortem for each row when (new.runner_id = 'waiting') execute function public.waits()",
      );
      const holder = await holding();
      await holder.query("select pg_advisory_xact_lock(4712)");
      failures.length = 0;
      for (const runnerId of ["waiting", "next"])
        expect((await postMortems.writeRunner([{ runnerId }], evidence)).cause).toBe("exited");
      expect(failures).toEqual(["writing the post-mortem of a runner"]);
      const written = (await everbeat.recovery.postMortems({ kind: "runner" })).map(({ runnerId }) => runnerId);
      expect(written).toContain("next");
    });
  });

  test("that are refused one after the other are not tried for long: then it is the table that cannot be written", async () => {
    const postMortems = new PostMortems({ database: everbeat.database, events });
    const replicaId = randomUUID() as ReplicaId;
    const attempts = Array.from({ length: 64 }, (_, nth) => ({
      ...{ replicaId, taskId: randomUUID() as TaskId, claimId: `${100 + nth}` as ClaimId, name: "resize" },
      part: "its part in it: none",
    }));
    const { allow } = await refuse(database, "post_mortem", "true");
    failures.length = 0;
    const clock = vi.spyOn(performance, "now");
    onTestFinished(() => clock.mockRestore());
    let nowMs = 0;
    clock.mockImplementation(() => (nowMs += 100));
    await postMortems.writeAttempts({ replicaId, ...DEATH }, attempts);
    expect(failures.at(-1)).toBe("writing the post-mortems of attempts");
    expect(failures.length).toBeLessThan(attempts.length / 2);
    await allow();
    const evidence = { kind: "runner", because: "exited", exitCode: 3 } as const;
    const written = async () => (await everbeat.recovery.postMortems({ kind: "runner" })).map((row) => row.runnerId);
    await postMortems.writeRunner([{ runnerId: "too-soon" }], evidence);
    nowMs += 30_000;
    await postMortems.writeRunner([{ runnerId: "later" }], evidence);
    expect(await written()).toEqual(expect.arrayContaining(["later"]));
    expect(await written()).not.toContain("too-soon");
  });

  test("of so many dead replicas that they fill a batch, and that cannot be written, leave room for others", async () => {
    await database.query(
      `insert into everbeat.replica (id, hostname, pid, version, tasks, status, died_at, death)
       select gen_random_uuid(), case when n > 100 then 'even' else 'odd' end, 1, '0', '{}', 'dead', now() + n * interval '1 ms', '{}'
       from generate_series(1, 103) n`,
    );
    await refuse(database, "post_mortem", "new.hostname = 'odd'");
    failures.length = 0;
    const passedBy = new PassedBy(
      { service: "sweep", part: "post-mortems" },
      { database: everbeat.database, events, onError: (error) => void failures.push(String(error)) },
    );
    const postMortems = new PostMortems({ database: everbeat.database, events });
    const now = vi.spyOn(performance, "now").mockReturnValue(0);
    onTestFinished(() => now.mockRestore());
    const written = async () =>
      (await everbeat.recovery.postMortems({ kind: "replica" })).filter(({ hostname }) => hostname === "even");
    await postMortems.examineDead([], passedBy);
    expect(await written()).toEqual([]);
    // By now, each of them could be tried again.
    now.mockReturnValue(60_000);
    await postMortems.examineDead([], passedBy);
    expect(await written()).toHaveLength(3);
    expect((await everbeat.alerts.list({ open: true })).filter(({ kind }) => kind === "sweep-passed-by")).toHaveLength(
      100,
    );
    expect(failures).toEqual([]);
  });
});

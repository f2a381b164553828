/** Post-mortems as they are kept: of runners, of what is asked for, and for how long. */
import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { Events } from "../../src/events.ts";
import { PostMortems } from "../../src/recovery/post-mortems.ts";
import { writePostMortems } from "../../src/sql/post-mortems.ts";
import type { ClaimId, ReplicaId, TaskId } from "../../src/task/ids.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const failures: string[] = [];
const events = new Events(() => {});
events.on("post-mortem.failed", ({ doing }) => failures.push(doing));
const told = { cause: "killed", sentence: "The process was killed.", evidence: ["its process was ended by SIGKILL"] };

describe("post-mortems", () => {
  test("of a runner say how it ended, and of which task", async () => {
    const postMortems = new PostMortems({ database: everbeat.database, events });
    const subject = {
      ...{ runnerId: randomUUID(), replicaId: randomUUID() as ReplicaId, taskId: randomUUID() as TaskId },
      ...{ claimId: "7" as ClaimId, name: "resize", hostname: "host-7" },
    };
    const concluded = await postMortems.writeRunner(subject, {
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
    expect((await postMortems.writeRunner({ runnerId: "r" }, evidence)).cause).toBe("exited");
    expect(failures).toEqual(["writing the post-mortem of a runner"]);
    await postMortems.writeRunner({ runnerId: "r" }, evidence);
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
});

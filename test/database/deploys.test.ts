/** What a post-mortem takes for a deploy: processes of the same kind that left or began at about the time of a death. */
import { describe, expect, test } from "vitest";
import { setReplicaStatus } from "../../src/sql/replicas.ts";
import { newReplicaId } from "../../src/task/ids.ts";
import { putOnRecord } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();

describe("a deploy", () => {
  /** Another replica that has just left, some seconds before now. */
  const left = async (tasks: readonly string[], agoSeconds: number, queues?: readonly string[]) => {
    const id = newReplicaId();
    await putOnRecord(everbeat.database, id, tasks);
    await setReplicaStatus(everbeat.database, id, "offline");
    await database.query(
      `update everbeat.replica set seen_at = now() - make_interval(secs => $2), started_at = now() - interval '1 hour', queues = $3 where id = $1`,
      [id, agoSeconds, queues ?? null],
    );
  };
  const died = async (tasks: readonly string[], queues?: readonly string[]) => {
    const id = newReplicaId();
    await putOnRecord(everbeat.database, id, tasks);
    // On a machine of its own: who else died there would tell of the machine's end.
    await database.query("update everbeat.replica set queues = $2, machine_id = id where id = $1", [
      id,
      queues ?? null,
    ]);
    await everbeat.recovery.reportExit(id, {});
    const [row] = await everbeat.recovery.postMortems({ of: id });
    return row;
  };

  test("is what others with the same tasks or queues are in that leave at the same time", async () => {
    await left(["rolled"], 3);
    await left(["rolled", "more"], 5);
    expect(await died(["rolled"])).toMatchObject({
      cause: "deploy",
      sentence: "The process went in the middle of a deploy: 2 other replicas had just left.",
    });
    await left(["one"], 3, ["images"]);
    expect(await died(["other"], ["mail", "images"])).toMatchObject({ cause: "deploy" });
  });

  test("is not what scripts are that had left before, or that have nothing to do with it", async () => {
    await left(["script"], 30);
    await left(["something-else"], 3);
    await left(["something-else"], 3, ["elsewhere"]);
    expect(await died(["script"])).toMatchObject({ cause: "unknown" });
    expect(await died(["script"], ["mail"])).toMatchObject({ cause: "unknown" });
  });

  test("is what another version is in that has just been started, if it has the same tasks", async () => {
    const id = newReplicaId();
    await putOnRecord(everbeat.database, id, ["versioned"]);
    await database.query("update everbeat.replica set version = '2.0.0' where id = $1", [id]);
    expect(await died(["unversioned"])).toMatchObject({ cause: "unknown" });
    expect(await died(["versioned"])).toMatchObject({
      sentence: "The process went in the middle of a deploy: version 2.0.0 had just been started.",
    });
    await setReplicaStatus(everbeat.database, id, "draining");
    expect(await died(["versioned"])).toMatchObject({
      sentence:
        "The process went in the middle of a deploy: 1 other replica was leaving, version 2.0.0 had just been started.",
    });
  });
});

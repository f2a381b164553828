/** The rule by which crowds are counted is written twice: `crowd_of` for the product, `crowdOf` for tests without a database. They agree. */
import { expect, test } from "vitest";
import { noteCrash } from "../../src/sql/suspicion.ts";
import { MAX_COUNT } from "../../src/task/counts.ts";
import { newReplicaId } from "../../src/task/ids.ts";
import { crowdOf } from "../support/crowds.ts";
import { openTestEverbeat } from "../support/database.ts";
import { seededRandom } from "../support/seeded-random.ts";

const { everbeat, database } = await openTestEverbeat();

interface Present {
  readonly state: "running" | "claimed";
  readonly crashes: number;
  /** Crashes of others that it was at, together with more tasks. */
  readonly suspicion: number;
  /** What does not count: crashes that it was charged with, which are among its crashes, and the present one. */
  readonly charged: number;
  readonly isSuspectedNow: boolean;
}

test("of any crowd", async () => {
  const random = seededRandom("crowds");
  for (let round = 0; round < 60; round++) {
    const crowd = Array.from(
      { length: random.between(0, 6) },
      (): Present => ({
        state: random.pick(["running", "running", "running", "claimed"]),
        crashes: random.pick([0, 0, 1, 2, 3, MAX_COUNT]),
        suspicion: random.between(0, 3),
        charged: random.between(0, 2),
        isSuspectedNow: random.next() < 0.3,
      }),
    );
    const replicaId = newReplicaId();
    await database.query(
      `with present as (
         select gen_random_uuid() as id, p.* from json_to_recordset($2)
           as p (state text, crashes int, suspicion int, charged int, "isSuspectedNow" boolean)
       ), suspected as (
         insert into everbeat.suspicion (task_id, replica_id, is_charged, is_apart)
         select id, gen_random_uuid(), false, false from present, generate_series(1, suspicion)
         union all select id, gen_random_uuid(), true, false from present, generate_series(1, charged)
         union all select id, $1::uuid, false, false from present where "isSuspectedNow"
       )
       insert into everbeat.running (claim_id, task_id, replica_id, state, name, queue, priority, run_at, gated, attempt, failures, crashes, claimed_at)
       select nextval('everbeat.claim_id'), id, $1::uuid, state, 'x', 'x', 0, now(), false, 1, 0, crashes, now() from present`,
      [replicaId, JSON.stringify(crowd)],
    );
    const running = crowd.filter(({ state }) => state === "running");
    const expected = running.length === 0 ? undefined : crowdOf(running);
    expect(await noteCrash(everbeat.database, replicaId), JSON.stringify(crowd)).toEqual(expected);
  }
});

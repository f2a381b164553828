/** Each reason for a verdict has evidence of its own, which is looked at again when it is written, and what is on record of a death is read in full. */
import { expect, test } from "vitest";
import { declareDead, declareExited } from "../../src/sql/hearts.ts";
import { readDeath, VERDICT_REASONS, type VerdictReason } from "../../src/task/death.ts";
import { newReplicaId, type ReplicaId } from "../../src/task/ids.ts";
import { putOnRecord } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { sweeper } from "../support/sweeping.ts";

const { everbeat, database } = await openTestEverbeat();

async function replica(): Promise<ReplicaId> {
  const id = newReplicaId();
  await putOnRecord(everbeat.database, id, ["t"]);
  return id;
}

const deathOf = async (id: ReplicaId) =>
  (
    await database.query<{ status: string; death: unknown }>(
      "select status, death from everbeat.replica where id = $1",
      [id],
    )
  )[0];

/** That nobody has heard of for an hour, while somebody listened; its session has been gone for as long. */
const LONG_GONE = `with of_heart as (update everbeat.heart set beat_at = now() - interval '1 hour', epoch = everbeat.known_epoch(),
    session_key = everbeat.session_key(replica_id), session_epoch = everbeat.known_epoch(), session_free_since = now() - interval '1 hour'
  where replica_id = $1)
  update everbeat.replica set started_at = now() - interval '2 hours' where id = $1`;

/** What leaves a heart with the evidence of this reason, and with that of no other. The compiler asks for a new reason. */
const ONLY: { readonly [Reason in VerdictReason]: string } = {
  silent: "update everbeat.heart set session_free_since = 'infinity' where replica_id = $1",
  "session-lost": "update everbeat.heart set beat_at = clock_timestamp() where replica_id = $1",
};

test.each(VERDICT_REASONS)(
  "a verdict because of %s holds on its own evidence, and on that of no other",
  async (because) => {
    for (const evidence of VERDICT_REASONS) {
      const id = await replica();
      await sweeper(everbeat.database).sweep();
      await database.query(
        "update everbeat.listening set hearing_since = now() - interval '1 day', sessions_since = now() - interval '1 day'",
      );
      await database.query(LONG_GONE, [id]);
      await database.query(ONLY[evidence], [id]);
      const isDead = await declareDead(everbeat.database, id, { death: { because }, minMs: 60_000 });
      expect({ evidence, isDead }).toEqual({ evidence, isDead: evidence === because });
      if (isDead) expect(readDeath((await deathOf(id))?.death)).toEqual({ because });
      await database.query("delete from everbeat.replica where id = $1", [id]);
      await database.query("delete from everbeat.heart where replica_id = $1", [id]);
    }
  },
);

test("a verdict for a reason that the database does not know is refused, and not taken for silence", async () => {
  const id = await replica();
  await sweeper(everbeat.database).sweep();
  await database.query(
    "update everbeat.listening set hearing_since = now() - interval '1 day', sessions_since = now() - interval '1 day'",
  );
  await database.query(LONG_GONE, [id]);
  const death = { because: "of-a-newer-version" as VerdictReason };
  await expect(declareDead(everbeat.database, id, { death, minMs: 0 })).rejects.toThrow(
    'a verdict because of "of-a-newer-version" has no evidence that could be looked at again',
  );
  expect(await deathOf(id)).toEqual({ status: "online", death: null });
});

test("an exit that was reported is read in full from its record, which has nothing that nobody reads", async () => {
  const id = await replica();
  const group = { used: 90, limit: 100, kills: 1 };
  const { verdict, death } = await declareExited(everbeat.database, id, {
    exitCode: 3,
    signal: null,
    wasAsked: false,
    sharedWith: [newReplicaId()],
    group,
  });
  expect(verdict).toBe("dead");
  const { replicaId, signal, vitals, ...written } = death as Record<string, unknown>;
  expect(replicaId).toBe(id);
  expect({ signal, vitals }).toEqual({ signal: null, vitals: null });
  const read = readDeath(death);
  expect({ ...read, vitals: undefined }).toEqual({ ...written, vitals: undefined });
  expect(read).toMatchObject({ because: "exited", exitCode: 3, group, hostname: "by-hand", machineId: "by-hand" });
});

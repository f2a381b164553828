/** A replica is killed in the middle of a migration: its task fails with a reason, and the next one proceeds. */
import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Everbeat, TaskEndedError } from "everbeat";
import { migrateDatabase } from "./tasks.ts";

const everbeat = await Everbeat.open({ schema: "example_replicas", log: "silent", onProgress: console.log });
const replicas = new Map<string, ChildProcess>();
try {
  for (let count = 1; count <= 2; count++) {
    const child = fork(fileURLToPath(new URL("./worker.ts", import.meta.url)));
    const [replicaId] = await once(child, "message");
    replicas.set(String(replicaId), child);
    console.log(`1. replica ${replicaId} beats (process ${child.pid})`);
  }

  const migrate = (database: string, version: number, takesMs: number) =>
    everbeat.enqueue(migrateDatabase, { database, version, takesMs }, { exclusiveKey: database });
  const first = await migrate("orders", 2, 600_000);
  const owner = await until(async () => {
    const task = await everbeat.tasks.show(first);
    return task.state === "running" && task.replicaId;
  });
  console.log(`2. replica ${owner} migrates "orders": the claim records which one has it`);

  const second = await migrate("orders", 3, 50);
  const other = await migrate("customers", 8, 50);
  assert.equal(await everbeat.result(other), "customers is at version 8");
  await until(async () => (await everbeat.tasks.show(second)).isParked);
  const why = await everbeat.recovery.explain(second);
  assert.equal(why.because, "parked");
  assert.ok(why.summary.includes(first), why.summary);
  console.log('3. "customers" is migrated meanwhile; the next migration of "orders" waits behind the first');

  const killedAt = performance.now();
  replicas.get(owner)?.kill("SIGKILL");
  console.log(`4. replica ${owner} is killed (SIGKILL), in the middle of it`);

  const crash = await everbeat.result(first).catch((error: unknown) => error);
  const knownMs = performance.now() - killedAt;
  assert.ok(crash instanceof TaskEndedError && crash.code === "WORKER_CRASHED", String(crash));
  console.log(`5. ${(knownMs / 1_000).toFixed(1)} s later its task has failed: ${crash.error?.message}`);

  assert.equal(await everbeat.result(second), "orders is at version 3");
  const successor = await everbeat.tasks.show(second);
  assert.notEqual(successor.replicaId, owner);
  console.log(`6. its key is free: replica ${successor.replicaId} has migrated "orders" to version 3`);

  const rows = await everbeat.replicas();
  assert.equal(rows.find((row) => row.id === owner)?.status, "dead");
  assert.equal(rows.find((row) => row.id === successor.replicaId)?.status, "online");
  const needReview = await everbeat.recovery.review.list({ ids: [first] });
  assert.equal(needReview.length, 1);
  await everbeat.recovery.review.done([first], { note: "version 2 was rolled back by PostgreSQL" });
  assert.equal((await everbeat.recovery.review.list({ ids: [first] })).length, 0);
  console.log("7. the dead replica is on record as dead, and its task was on the list for review");
} finally {
  for (const child of replicas.values()) child.kill("SIGKILL");
}
await everbeat.close();

/** Looks until there is something to see, for at most half a minute. */
async function until<T>(look: () => Promise<T | null | undefined | false>): Promise<T> {
  const givingUpAt = performance.now() + 30_000;
  for (;;) {
    const seen = await look();
    if (seen !== null && seen !== undefined && seen !== false) return seen;
    assert.ok(performance.now() < givingUpAt, "it did not happen within 30 s");
    await pause(50);
  }
}

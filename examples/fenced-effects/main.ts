/** Effects and completion commit together; a worker that lost its task while it was stopped commits nothing. */
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Everbeat } from "everbeat";
import { bookPayment } from "./tasks.ts";

const everbeat = await Everbeat.open({ schema: "example_fenced", log: "silent", onProgress: console.log });
await everbeat.database.query(
  "create table if not exists example_ledger (payment uuid not null, cents int not null, booked_by text not null)",
);
const healthy = bookPayment({ everbeat, by: "the healthy worker" });

const payment = randomUUID();
const id = await everbeat.enqueue(healthy, { payment, cents: 4_200 });
console.log("1. a payment of 42.00 is enqueued");

const zombie = fork(fileURLToPath(new URL("./worker.ts", import.meta.url)));
try {
  await said("about to commit");
  zombie.kill("SIGSTOP");
  console.log("2. a worker has booked it in its transaction, and is stopped (SIGSTOP) just before its commit");

  const [taken] = await everbeat.tasks.retry(id, { force: true });
  assert.equal(taken?.outcome, "taken");
  console.log("3. the task is taken away from it by hand: that need not wait for the stopped process");

  const worker = await everbeat.work([healthy]);
  assert.deepEqual(await everbeat.result(id), { bookedBy: "the healthy worker" });
  await worker.stop();
  console.log("4. a healthy worker runs it: booked and completed, in one commit");

  const refusals = Promise.all([said("commit refused: EB001"), said("outcome refused")]);
  zombie.kill("SIGCONT");
  zombie.send("go on");
  await refusals;
  console.log("5. the stopped worker goes on (SIGCONT) and commits, late: the database refuses (SQLSTATE EB001)");

  const booked = await everbeat.database.query("select cents, booked_by from example_ledger where payment = $1", [
    payment,
  ]);
  assert.deepEqual(booked, [{ cents: 4_200, booked_by: "the healthy worker" }]);
  console.log("6. the ledger has the payment once:", booked[0]);

  const { attempts, late } = await everbeat.tasks.show(id);
  assert.deepEqual(
    attempts.map(({ outcome }) => outcome),
    ["taken", "completed"],
  );
  assert.equal(late.length, 1);
  console.log("7. the record shows both attempts, and the outcome that came too late:");
  for (const attempt of attempts) console.log(`   claim ${attempt.claimId}  ${attempt.outcome}`);
  for (const refused of late) console.log(`   claim ${refused.claimId}  refused, ${refused.error?.code}`);

  zombie.send("leave");
  await once(zombie, "exit");
} finally {
  zombie.kill("SIGKILL");
}
await everbeat.database.query("drop table example_ledger");
await everbeat.close();

/** Resolves when the worker process has said so. */
function said(words: string): Promise<void> {
  return new Promise((resolve, reject) => {
    zombie.on("message", (message) => message === words && resolve());
    zombie.once("exit", (code) => reject(new Error(`the worker process ended with ${code} and never said "${words}"`)));
  });
}

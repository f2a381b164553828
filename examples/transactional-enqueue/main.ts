/** A task that exists if and only if the transaction that enqueued it has committed. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Everbeat, TaskNotFoundError } from "everbeat";
import { sendReceipt } from "./tasks.ts";

const everbeat = await Everbeat.open({ schema: "example_transactions", log: "warn", onProgress: console.log });
const receipt = sendReceipt(everbeat);
// A `pg` client, in transactions of our own. In an application it comes from the application's pool.
const client = await everbeat.database.dedicated();
await client.query("create table if not exists example_order (id uuid primary key, item text not null)");
await everbeat.work([receipt]);

const orderId = randomUUID();
await client.query("begin");
await client.query("insert into example_order values ($1, 'teapot')", [orderId]);
const taskId = await everbeat.enqueue(receipt, { orderId }, { tx: client });
await assert.rejects(everbeat.tasks.show(taskId), TaskNotFoundError);
console.log("before the commit   nobody sees the order, and nobody sees its task");
await client.query("commit");
assert.equal(await everbeat.result(taskId), "a receipt for one teapot");
console.log("after the commit    the worker sent", await everbeat.result(taskId));

const undoneId = randomUUID();
await client.query("begin");
await client.query("insert into example_order values ($1, 'anvil')", [undoneId]);
const undoneTaskId = await everbeat.enqueue(receipt, { orderId: undoneId }, { tx: client });
await client.query("rollback");
await assert.rejects(everbeat.tasks.show(undoneTaskId), TaskNotFoundError);
const { rowCount } = await client.query("select from example_order where id = $1", [undoneId]);
assert.equal(rowCount, 0);
console.log("after a rollback    there is neither an order nor a task");

const orderIds = Array.from({ length: 100 }, () => randomUUID());
await client.query("begin");
await client.query("insert into example_order select id, 'cup' from unnest($1::uuid[]) id", [orderIds]);
const ids = await everbeat.enqueueMany(
  receipt,
  orderIds.map((id) => ({ orderId: id })),
  { tx: client },
);
await client.query("commit");
const receipts = await Promise.all(ids.map((id) => everbeat.result(id)));
assert.ok(receipts.every((sent) => sent === "a receipt for one cup"));
console.log(`many at once        ${receipts.length} orders and their tasks in one commit, every receipt sent`);

await client.query("drop table example_order");
await client.end();
await everbeat.close();

/** An alert reaches a webhook although processes are killed: who raised it, and who was delivering it. */
import { expect, test } from "vitest";
import { startAlertReceiver, startChannelProcess } from "../support/alert-receiver.ts";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";

test("the process that raised it is killed in that moment: another that has the channel delivers it", async () => {
  const { url } = await openCrashDatabase();
  const receiver = await startAlertReceiver();
  const raiser = await startChannelProcess({ url, target: undefined, name: "raiser" });
  await startChannelProcess({ url, target: receiver.url, name: "deliverer" });
  await raiser.raiseAndDie("a");
  await eventually(() => receiver.received.length === 1);
  expect(receiver.received).toMatchObject([{ change: "raised", subject: "a", from: "deliverer" }]);
}, 60_000);

test("the only process that has the channel is killed when it has raised it: it is delivered when one starts again", async () => {
  const { url } = await openCrashDatabase();
  const receiver = await startAlertReceiver();
  receiver.answer = "nothing";
  const first = await startChannelProcess({ url, target: receiver.url, name: "first" });
  await first.raiseAndDie("a");
  receiver.answer = 204;
  await startChannelProcess({ url, target: receiver.url, name: "second" });
  await eventually(() => receiver.received.some(({ from }) => from === "second"), {
    within: 90_000,
    what: "the delivery by the second, at the latest when the time of the first has run out",
  });
}, 120_000);

test("the process that is delivering it is killed: another takes it when its time has run out", async () => {
  const { url, query } = await openCrashDatabase();
  const receiver = await startAlertReceiver();
  receiver.answer = ({ from }) => (from === "first" ? "nothing" : 204);
  const first = await startChannelProcess({ url, target: receiver.url, name: "first" });
  await query("select everbeat.raise_alert('queue-locked', 'a', 'it is locked', null)");
  await eventually(() => receiver.received.length === 1);
  await startChannelProcess({ url, target: receiver.url, name: "second" });
  await first.kill();
  expect(receiver.received.map(({ from }) => from)).toEqual(["first"]);
  // Not before: the first one may be alive, and about to succeed.
  const [row] = await query<{ left: number }>(
    "select extract(epoch from next_try_at - now())::float8 as left from everbeat.alert_delivery",
  );
  expect(row?.left).toBeGreaterThan(20);
  await query("update everbeat.alert_delivery set next_try_at = now()");
  await query("select everbeat.raise_alert('queue-locked', 'b', 'it is locked', null)");
  await eventually(() => receiver.received.length === 3);
  const bySecond = receiver.received.filter(({ from }) => from === "second");
  expect(bySecond.map(({ subject, tries }) => [subject, tries]).toSorted()).toEqual([
    ["a", 2],
    ["b", 1],
  ]);
}, 90_000);

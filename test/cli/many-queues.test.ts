/** A queue per tenant: thousands of queues, of which few have anything to do. */
import { expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { everbeat as cli } from "./run-cli.ts";
import { everbeatHere as here, everbeatJsonHere as jsonHere } from "./run-here.ts";

const { everbeat, database } = await openTestEverbeat();
const at = { database: database.url };
const mail = defineTask({ name: "mail", run: async () => {} });

test("of 2,000 queues, those that have something to do or are set up are shown", async () => {
  await database.query(
    "insert into everbeat.queue (name) select 'tenant-' || lpad(n::text, 4, '0') from generate_series(1, 2000) n",
  );
  await everbeat.enqueueMany(mail, [undefined, undefined], { options: { queue: "tenant-1500" } });
  await everbeat.enqueue(mail, undefined, { queue: "tenant-0700" });
  await everbeat.queues.pause("tenant-0900");

  const { stdout: status } = await cli(["status"], at);
  expect(status.match(/^ {2}tenant-\d+/gm)).toEqual(["  tenant-0700", "  tenant-0900", "  tenant-1500"]);
  expect(status).toContain("\n  and 1,997 more, idle (everbeat queues)\n");

  const { stdout: queues } = await cli(["queues"], at);
  expect(queues.match(/^tenant-\d+/gm)?.slice(0, 4)).toEqual([
    "tenant-1500",
    "tenant-0700",
    "tenant-0900",
    "tenant-0001",
  ]);
  expect(queues.match(/^tenant-/gm)).toHaveLength(100);
  expect(queues).toContain("\nand 1,900 more, idle (--all shows them)\n");
  expect((await here(["queues", "list", "--limit", "2"], at)).stdout).toMatch(
    /and 1,998 more: 1 with something to do, the others idle/,
  );
  expect((await here(["queues", "--all"], at)).stdout.match(/^tenant-/gm)).toHaveLength(2_000);
  expect((await jsonHere<{ queues: unknown[] }>(["queues"], at)).answer.queues).toHaveLength(2_000);

  for (let n = 1; n <= 30; n++) await everbeat.queues.pause(`tenant-${String(n).padStart(4, "0")}`);
  const { stdout: full } = await here(["status"], at);
  expect(full.match(/^ {2}tenant-\d+/gm)).toHaveLength(20);
  expect(full).toMatch(/^ {2}tenant-1500 .*\n {2}tenant-0700 .*\n {2}tenant-0001 +‖ paused /m);
  expect(full).toContain("\n  and 1,980 more: 13 paused, the others idle (everbeat queues)\n");

  for (let n = 1; n <= 40; n++)
    await everbeat.enqueueMany(mail, [undefined, undefined, undefined], {
      options: { queue: `busy-${String(n).padStart(4, "0")}` },
    });
  const { stdout: both } = await here(["status"], at);
  expect(both.match(/^ {2}busy-\d+ +▸ open/gm)).toHaveLength(10);
  expect(both.match(/^ {2}tenant-\d+ +‖ paused/gm)).toHaveLength(10);
  expect(both).toContain("\n  and 2,020 more: 21 paused, 32 with something to do, the others idle (everbeat queues)\n");
});

/** What the commands that change a queue have in common: doing it, and showing the queue as it is then. */
import { nearestKey } from "../config/nearest-key.ts";
import type { Everbeat } from "../everbeat.ts";
import type { Call } from "./command.ts";
import { withEverbeat } from "./open-for-command.ts";
import { queueTable } from "./queue-table.ts";

export async function changeQueue(
  call: Call,
  change: (queues: Everbeat["queues"], name: string) => Promise<void>,
): Promise<undefined> {
  const { screen } = call;
  const [name = ""] = call.words;
  await withEverbeat(call, async ({ queues }) => {
    const before = (await queues.list()).map((queue) => queue.name);
    await change(queues, name);
    const queue = (await queues.list()).find((row) => row.name === name);
    if (!before.includes(name)) screen.remark(screen.errorColours.yellow(newQueueNote(name, before)));
    screen.answer({ queue }, () => (queue ? queueTable([queue], screen) : []));
  });
  return undefined;
}

/** Settings may come before the first task, so a new name is no error; it may still be a slip. */
function newQueueNote(name: string, known: readonly string[]): string {
  const nearest = nearestKey(name, known);
  return `! "${name}" is a new queue: no task of it is on record.${nearest ? ` Did you mean ${nearest}?` : ""}`;
}

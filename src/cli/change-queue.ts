/** What the commands that change a queue have in common: doing it, and showing the queue as it is then. */
import { nearestKey } from "../config/nearest-key.ts";
import type { InputOf } from "../operations/operations.ts";
import { asking } from "./asking.ts";
import type { Call } from "./command.ts";
import { queueTable } from "./queue-table.ts";

type Change = "queues.pause" | "queues.resume" | "queues.set";

export async function changeQueue<Name extends Change>(
  call: Call,
  change: Name,
  settings: Omit<InputOf<Name>, "name">,
): Promise<undefined> {
  const { screen } = call;
  const [name = ""] = call.words;
  await asking(call, async ({ ask }) => {
    const before = (await ask("queues.list", {})).queues.map((queue) => queue.name);
    const answer = await ask(change, { name, ...settings } as InputOf<Name>);
    if (!before.includes(name)) screen.remark(screen.errorColours.yellow(newQueueNote(name, before)));
    screen.answer(answer, () => (answer.queue ? queueTable([answer.queue], screen) : []));
  });
  return undefined;
}

/** Settings may come before the first task, so a new name is no error; it may still be a slip. */
function newQueueNote(name: string, known: readonly string[]): string {
  const nearest = nearestKey(name, known);
  return `! "${name}" is a new queue: no task of it is on record.${nearest ? ` Did you mean ${nearest}?` : ""}`;
}

/** No task is lost or doubled, no attempt is missing or told twice, and no limit is exceeded, at any time. Pure. */
import type { History, Place, Record } from "./record.ts";

export function checkPlaces(history: History, record: Record): string[] {
  let accepted = new Set<string>();
  let remembered: ReadonlySet<string> = accepted;
  const exclusive = new Map<string, { key: string; limit: number }>();
  const problems: string[] = [];
  for (const entry of history) {
    if (entry.kind === "enqueued") {
      accepted.add(entry.task);
      if (entry.exclusive) exclusive.set(entry.task, entry.exclusive);
    }
    if (entry.kind === "remembered") remembered = new Set(accepted);
    // What was accepted since is gone, and what was there runs again.
    if (entry.kind === "forgot") accepted = new Set(remembered);
    if (entry.kind !== "looked") continue;
    problems.push(...lostOrDoubled(accepted, entry.places));
    problems.push(...aboveLimits(entry.places, exclusive, record.queueLimits));
  }
  problems.push(...lostOrDoubled(accepted, record.places));
  for (const task of accepted) {
    if (!record.tasks.includes(task)) problems.push(`task ${task} was accepted and is not on record`);
  }
  return [...new Set([...problems, ...wrongAttempts(record)])];
}

function lostOrDoubled(accepted: ReadonlySet<string>, places: readonly Place[]): string[] {
  const counts = new Map<string, number>([...accepted].map((task) => [task, 0]));
  for (const { task } of places) counts.set(task, (counts.get(task) ?? 0) + 1);
  return [...counts].flatMap(([task, count]) => {
    if (!accepted.has(task)) return [`task ${task} was never accepted and is there`];
    if (count === 0) return [`task ${task} is lost`];
    return count > 1 ? [`task ${task} is in ${count} places at once`] : [];
  });
}

function aboveLimits(
  places: readonly Place[],
  exclusive: ReadonlyMap<string, { key: string; limit: number }>,
  queueLimits: Record["queueLimits"],
): string[] {
  const held = places.filter(({ table }) => table === "running");
  const ofQueues = Object.entries(queueLimits).flatMap(([queue, limit]) => {
    const count = held.filter((place) => place.queue === queue).length;
    return count > limit ? [`${count} of queue ${queue} at once, and ${limit} are allowed`] : [];
  });
  const limits = new Map([...exclusive.values()].map(({ key, limit }) => [key, limit]));
  const ofKeys = [...limits].flatMap(([key, limit]) => {
    const count = held.filter(({ task }) => exclusive.get(task)?.key === key).length;
    return count > limit ? [`${count} with the exclusive key ${key} at once, and ${limit} are allowed`] : [];
  });
  return [...ofQueues, ...ofKeys];
}

/** Each number from 1 to the last is there once: what is under way comes after all that are over. */
function wrongAttempts(record: Record): string[] {
  return record.places.flatMap(({ task, table, attempt }) => {
    const over = record.attempts.filter((one) => one.task === task).map((one) => one.attempt);
    const last = table === "ended" ? attempt : attempt - 1;
    const wrong: string[] = [];
    for (let number = 1; number <= Math.max(last, ...over); number++) {
      const count = over.filter((one) => one === number).length;
      if (count > 1) wrong.push(`attempt ${number} of task ${task} has ${count} outcomes`);
      if (count === 0)
        wrong.push(`attempt ${number} of task ${task} has no outcome, and it is at ${attempt} in ${table}`);
      if (count > 0 && number > last) wrong.push(`attempt ${number} of task ${task} is over and yet to come`);
    }
    return wrong;
  });
}

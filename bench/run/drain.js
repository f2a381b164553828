/** Fill the tables, let workers empty them: the heart of most measures. */
import { msSince, nowNs } from "../process/clock.js";
import { until } from "./stage.js";

/** Through the system's own bulk call, from a process of its own. Returns that process, and how long it took. */
export async function fill(stage, system, { count, callers, options, changes }) {
  const host = await stage.host(system, changes);
  const ms = await host.tell("enqueueMany", { count, callers, options });
  return { host, ms };
}

/**
 * Workers that are connected and start at the same moment. The clock runs from the first task's start, so that the
 * start of the workers, which has a measure of its own, does not count; until `count` tasks were handled and, unless more
 * are left on purpose, until the system itself says that none is unfinished.
 */
export async function drain(stage, system, parts) {
  const { processes = 1, count, work, changes, asker, leavesMore = false, limitMs = 120_000 } = parts;
  const hosts = [];
  for (let n = 0; n < processes; n++) hosts.push(await stage.host(system, changes));
  const before = await stage.costs(system, hosts);
  const orderedNs = nowNs();
  await Promise.all([...hosts.map((host) => host.tell("work", work)), handledBy(hosts, count, limitMs)]);
  if (!leavesMore) {
    await until(async () => (await asker.tell("unfinished")) === 0, {
      withinMs: limitMs,
      what: "the end of all tasks",
    });
  }
  const endedNs = nowNs();
  const after = await stage.costs(system, hosts);
  const firstNs = Math.min(...hosts.map((host) => host.tally.firstNs || endedNs));
  return { hosts, before, after, ms: msSince(firstNs, endedNs), startMs: msSince(orderedNs, firstNs) };
}

/** Resolves when these processes together have handled so many tasks. */
export function handledBy(hosts, count, limitMs) {
  return new Promise((resolve, reject) => {
    const total = () => hosts.reduce((sum, host) => sum + host.tally.handled, 0);
    const timer = setTimeout(
      () => reject(new Error(`${total()} of ${count} tasks were handled within ${limitMs / 1000} s`)),
      limitMs,
    );
    const look = (problem) => {
      if (problem) return end(() => reject(problem));
      if (total() >= count) end(resolve);
    };
    const end = (settle) => {
      clearTimeout(timer);
      settle();
    };
    for (const host of hosts) host.onTally(look);
    look();
  });
}

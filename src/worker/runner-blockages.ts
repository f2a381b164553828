/** Blocked loops of a worker's runners, put on record as hearts do it for their own main thread, and told of when they are over. */
import type { Database } from "../database/database.ts";
import type { Events } from "../events.ts";
import { BlockageRecord } from "../heart/blockage-record.ts";
import type { BlockageSight } from "../heart/loop-watch.ts";
import type { RunnerBlockages } from "../runner/blockages.ts";
import type { Runner } from "../runner/runner.ts";
import { resolveAlert } from "../sql/alerts.ts";
import type { ReplicaId } from "../task/ids.ts";

interface Blockage {
  readonly runnerId: string;
  readonly record: BlockageRecord;
  sight: BlockageSight;
  /** By this process's own clock. */
  seenAtMs: number;
  end: { readonly turnedAfterMs: number } | "runner-ended" | undefined;
  /** What of it is on record. */
  noted: BlockageSight | undefined;
  isEndNoted: boolean;
}

export function createRunnerBlockages(parts: {
  database: Database;
  events: Events;
  replica: { readonly id: ReplicaId };
  hostname: string;
}): RunnerBlockages {
  const { database, events, replica, hostname } = parts;
  /** Those that last, and those whose end is not on record yet. */
  let blockages: Blockage[] = [];
  let writing: Promise<void> | undefined;
  let hasChanged = false;
  const lasting = (id: string) => blockages.find(({ runnerId, end }) => runnerId === id && end === undefined);

  function begin(runner: Runner, sight: BlockageSight): Blockage {
    const { id: runnerId, kind, pid } = runner;
    const who = kind === "process" ? `process ${pid}` : "a thread";
    const claims = runner.attempts;
    const record = new BlockageRecord({
      thread: () => ({ replicaId: replica.id, runnerId, claims }),
      name: () => `runner ${runnerId} (${who}) of replica ${replica.id} on ${hostname}`,
      store: () => database,
    });
    const seenAtMs = performance.now();
    const blockage = { runnerId, record, sight, seenAtMs, end: undefined, noted: undefined, isEndNoted: false };
    blockages.push(blockage);
    return blockage;
  }

  async function write(blockage: Blockage): Promise<void> {
    const { record, runnerId, sight, seenAtMs, end, noted } = blockage;
    if (noted !== sight) {
      const sinceMs = end === undefined ? performance.now() - seenAtMs : 0;
      await record.note({ ...sight, blockedMs: sight.blockedMs + sinceMs });
      blockage.noted = sight;
    }
    if (end === undefined) return;
    if (end === "runner-ended") await resolveAlert(database, "loop-blocked", runnerId);
    else await record.turned(end.turnedAfterMs);
    blockage.isEndNoted = true;
  }

  async function writeAll(): Promise<void> {
    do {
      hasChanged = false;
      for (const blockage of blockages) await write(blockage);
      blockages = blockages.filter(({ isEndNoted }) => !isEndNoted);
    } while (hasChanged);
  }

  async function settle(): Promise<void> {
    // While the database is away it waits for a later look.
    writing ??= writeAll()
      .catch(() => {})
      .finally(() => {
        writing = undefined;
      });
    return writing;
  }

  function change(blockage: Blockage, to: Partial<Blockage>): void {
    Object.assign(blockage, to);
    hasChanged = true;
    void settle();
  }

  return {
    onBlocked(runner, sight) {
      change(lasting(runner.id) ?? begin(runner, sight), { sight, seenAtMs: performance.now() });
    },
    onTurned({ id }, blockedMs) {
      const blockage = lasting(id);
      if (!blockage) return;
      change(blockage, { end: { turnedAfterMs: blockedMs } });
      const { stack } = blockage.sight;
      events.emit("loop.blocked", { replicaId: replica.id, runnerId: id, blockedForMs: blockedMs, stack });
    },
    onEnded(runnerId) {
      const blockage = lasting(runnerId);
      if (blockage) change(blockage, { end: "runner-ended" });
    },
    settle,
  };
}

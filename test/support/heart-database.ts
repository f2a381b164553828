/** A database for one test of hearts, with looks at what reapers see and did. */
import { onTestFinished } from "vitest";
import type { OpenOptions } from "../../src/config/open-options.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";
import { eventually } from "./eventually.ts";

export interface HeartRow {
  readonly status: "online" | "draining" | "offline" | "dead";
  readonly died_at: Date | null;
  readonly seen_at: Date;
  readonly death: Record<string, unknown> | null;
  readonly beat_at: Date;
  readonly vitals: { blockedForMs: number; inHand: number; rss: number; memoryLimit: number } | null;
}

export interface HeartDatabase extends TestDatabase {
  readonly everbeat: Everbeat;
  replica(id: string): Promise<HeartRow>;
  /** Waits until it has this status. */
  untilStatus(id: string, status: HeartRow["status"], within?: number): Promise<HeartRow>;
  /** How many replicas were ever declared dead. */
  deaths(): Promise<number>;
  crashesOf(taskId: string): Promise<number>;
}

export async function openHeartDatabase(options: OpenOptions = {}, serverUrl?: string): Promise<HeartDatabase> {
  const database = await createTestDatabase(serverUrl);
  const everbeat = await Everbeat.open({ database: database.url, log: "silent", ...options });
  onTestFinished(async () => {
    await everbeat.close({ now: true });
    await database.drop();
  });
  const replica = async (id: string) => {
    const [row] = await database.query<HeartRow>(
      `select r.status, r.died_at, r.seen_at, r.death, h.beat_at, h.vitals from everbeat.replica r left join everbeat.heart h on h.replica_id = r.id where r.id = $1`,
      [id],
    );
    if (!row) throw new Error(`replica ${id} is not on record`);
    return row;
  };
  const number = async (text: string, values?: unknown[]) =>
    (await database.query<{ n: number }>(`select (${text})::int as n`, values))[0]?.n ?? 0;
  return {
    ...database,
    everbeat,
    replica,
    untilStatus: (id, status, within = 30_000) =>
      eventually(() => replica(id), { until: (row) => row.status === status, within, what: `${id} to be ${status}` }),
    deaths: () => number("select count(*) from everbeat.replica where died_at is not null"),
    crashesOf: (taskId) => number("select crashes from everbeat.tasks where id = $1", [taskId]),
  };
}

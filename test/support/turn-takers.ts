/** Those who take turns, in the test's own process, with services of the test's own: what each has run, and how often it asked. */
import { onTestFinished } from "vitest";
import type { Database } from "../../src/database/database.ts";
import type { ClusterService } from "../../src/services/cluster-service.ts";
import { ClusterServices } from "../../src/services/cluster-services.ts";
import { newReplicaId } from "../../src/task/ids.ts";
import { eventually } from "./eventually.ts";

export interface OwnService {
  readonly name: string;
  readonly everyMs: number;
  readonly run?: (signal: AbortSignal) => Promise<unknown>;
}

export function startTaker(database: Database, services: readonly OwnService[], longestRunMs?: number) {
  const taker = { id: newReplicaId() };
  let isMoving = false;
  let looked = 0;
  const runs = new Map(services.map(({ name }) => [name, 0]));
  const errors: { readonly error: unknown; readonly doing: string }[] = [];
  let asked = 0;
  const counting: Database = {
    ...database,
    query(text, values, use) {
      if (text.includes("take_turns(")) asked++;
      return database.query(text, values, use);
    },
  };
  const cluster = new ClusterServices({
    ...{ database: counting, taker, longestRunMs },
    isMoving() {
      looked++;
      return isMoving;
    },
    onError: (error, doing) => void errors.push({ error, doing }),
    services: services.map(
      ({ name, everyMs, run }): ClusterService => ({
        ...{ name, everyMs, doing: name },
        async runOnce({ signal }) {
          runs.set(name, (runs.get(name) ?? 0) + 1);
          await run?.(signal);
        },
      }),
    ),
  });
  onTestFinished(() => cluster.stop());
  cluster.start();
  return {
    get id() {
      return taker.id;
    },
    errors,
    runs: (name: string) => runs.get(name) ?? 0,
    asked: () => asked,
    /** How often it was about to ask. */
    looked: () => looked,
    /** As a process that goes over to another id. Returns the end of that. */
    move() {
      isMoving = true;
      return () => {
        taker.id = newReplicaId();
        isMoving = false;
      };
    },
    stop: () => cluster.stop(),
    /** From now on. */
    runsAgain(name: string, times = 1) {
      const before = runs.get(name) ?? 0;
      const has = () => (runs.get(name) ?? 0) >= before + times;
      return eventually(has, { within: 12_000, what: `${times} more runs of ${name}` });
    },
  };
}

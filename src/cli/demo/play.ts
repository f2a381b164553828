/** The demo from beginning to end: a server and workers of its own, the scenes, the reckoning, and nothing left behind. */
import { performance } from "node:perf_hooks";
import { formatDuration } from "../../config/duration.ts";
import { Everbeat } from "../../everbeat.ts";
import { DemoInterruptedError } from "../errors.ts";
import type { Screen } from "../screen.ts";
import { aLoopIsBlocked } from "./a-loop-is-blocked.ts";
import { aRunnerRunsOutOfMemory } from "./a-runner-runs-out-of-memory.ts";
import { aTaskIsPoisoned } from "./a-task-is-poisoned.ts";
import { aWorkerIsKilled } from "./a-worker-is-killed.ts";
import { aWorkerStandsStill } from "./a-worker-stands-still.ts";
import { checkRecord, isFlawless, type RecordCheck } from "./check-record.ts";
import { type OwnServer, startOwnServer } from "./own-server.ts";
import { type Scene, Stage, type Tally } from "./stage.ts";
import { createStoryteller } from "./storyteller.ts";

/** In this order; a later version adds its own. */
const SCENES: readonly Scene[] = [
  aWorkerIsKilled,
  aWorkerStandsStill,
  aRunnerRunsOutOfMemory,
  aLoopIsBlocked,
  aTaskIsPoisoned,
];

export interface DemoSummary extends RecordCheck, Tally {
  readonly ok: boolean;
  readonly workersStarted: number;
  readonly scenes: readonly string[];
  readonly durationMs: number;
}

export async function playDemo(screen: Screen, signal: AbortSignal): Promise<DemoSummary> {
  const story = createStoryteller(screen);
  const startedAt = performance.now();
  story.title("Everbeat: background work that never gets stuck");
  story.tell("Real processes on a real PostgreSQL, for about twenty seconds. Nothing is left behind.");
  screen.say();
  const server = await startOwnServer((message) => story.now(message));
  story.good(`PostgreSQL ${server.version} is up, after ${formatDuration(performance.now() - startedAt)}.`);
  return withStage({ server, screen, signal }, async (stage) => {
    await stage.addWorker();
    await stage.addWorker();
    for (const [index, scene] of SCENES.entries()) {
      if (signal.aborted) throw new DemoInterruptedError();
      story.chapter(index + 1, scene.title);
      await scene.play(stage);
    }
    const record = await checkRecord(stage.everbeat, stage.accepted);
    return {
      ok: isFlawless(record, stage.tally.poisonous),
      ...record,
      ...stage.tally,
      workersStarted: stage.everyWorker.length,
      scenes: SCENES.map((scene) => scene.title),
      durationMs: Math.round(performance.now() - startedAt),
    };
  });
}

async function withStage<T>(
  parts: { server: OwnServer; screen: Screen; signal: AbortSignal },
  play: (stage: Stage) => Promise<T>,
): Promise<T> {
  const { server, screen, signal } = parts;
  let everbeat: Everbeat | undefined;
  let stage: Stage | undefined;
  try {
    everbeat = await Everbeat.open({ database: server.url, log: "silent" });
    stage = new Stage({ everbeat, story: createStoryteller(screen), databaseUrl: server.url, signal });
    return await play(stage);
  } finally {
    screen.progress.show("cleaning up");
    await Promise.all((stage?.everyWorker ?? []).map((worker) => (signal.aborted ? worker.kill() : worker.stop())));
    await everbeat?.close();
    await server.remove();
    screen.progress.clear();
  }
}

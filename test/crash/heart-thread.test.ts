/** The heart's own thread dies, and the process lives on: it must stop first, as if nobody had heard it. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { type Handler, startWorker, task } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 60_000 });

const DIES = fileURLToPath(new URL("../support/heart-thread-dies.js", import.meta.url));
/** Slow enough that what follows can only be told by the thread's end. */
const recovery = {
  ...{ claimerHeartbeatInterval: 5_000, claimedStaleThreshold: 40_000 },
  ...{ runnerHeartbeatInterval: 5_000, runningStaleThreshold: 40_000 },
  ...{ checkInterval: 100, sessionGrace: 10_000 },
};

/** A worker in the middle of this task, and a way to end its heart's thread. */
async function inTheMiddleOf(handler: Handler) {
  const folder = await mkdtemp(join(tmpdir(), "everbeat-heart-thread-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "die");
  const database = await openCrashDatabase();
  const worker = await startWorker({
    ...{ url: database.url, open: { recovery }, nodeArguments: ["--import", DIES], env: { HEART_DIES_AT: file } },
    tasks: [{ handler, onCrash: "requeue" }],
    work: { abortGrace: "1m" },
  });
  const id = await database.everbeat.enqueue(task(handler), {});
  await worker.heard({ handler: "begun", taskId: id });
  return { database, worker, id, killTheThread: () => writeFile(file, "") };
}

describe("a worker whose heart's thread dies", () => {
  test("stops what others may repeat, uncharged, and works on under another id with another heart", async () => {
    const { database, worker, id, killTheThread } = await inTheMiddleOf("hold");
    await killTheThread();
    await worker.heard({ event: "replica.fenced", replicaId: worker.replicaId });
    await worker.heard({ handler: "aborted", taskId: id, code: "CUT_OFF" });
    const { replicaId } = await worker.heard({ event: "replica.rejoined", before: worker.replicaId });
    await worker.heard({ event: "heart.beating", replicaId: replicaId as string });
    await worker.heard({ handler: "begun", taskId: id, attempt: 2 });
    expect(worker.messages.find(({ event }) => event === "heart.lost")).toMatchObject({
      message: expect.stringContaining("was made to die"),
    });
    expect((await database.everbeat.tasks.show(id)).attempts).toMatchObject([{ outcome: "aborted" }, { replicaId }]);
    expect(await database.crashesOf(id)).toBe(0);
    expect(await database.deaths()).toBe(0);
    expect((await database.replica(worker.replicaId)).status).toBe("offline");
  });

  test("ends its own process where a handler does not stop, long before others may act", async () => {
    const { database, worker, killTheThread } = await inTheMiddleOf("deaf");
    await killTheThread();
    expect(await worker.exited).toMatchObject({ signal: "SIGKILL" });
    expect(await database.deaths()).toBe(0);
  });
});

/** Following tasks and replicas in a test: from another Everbeat, as from another process, and what was told and written. */
import { expect, onTestFinished } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import type { ReplicaUpdate, TaskUpdate } from "../../src/following/follow.ts";
import { defineTask } from "../../src/task/define-task.ts";
import type { TestDatabase } from "./database.ts";

export function followingOn({ everbeat, database }: { everbeat: Everbeat; database: TestDatabase }) {
  /** Another Everbeat on the same database, as in another process. */
  async function another(): Promise<Everbeat> {
    const other = await Everbeat.open({ database: database.url, log: "silent" });
    onTestFinished(() => other.close({ now: true }));
    return other;
  }
  return {
    another,
    /** Somebody who follows it all along, so that what happens is written whoever else comes and goes. */
    async keptUp(id: string): Promise<void> {
      const stream = (await another()).follow(id);
      await begun(stream);
      onTestFinished(async () => void (await stream.return?.()));
    },
    async work(...tasks: Parameters<Everbeat["work"]>[0]) {
      const worker = await everbeat.work(tasks, { handleSignals: false });
      onTestFinished(() => worker.stop({ now: true }));
      return worker;
    },
    async written(topic: string): Promise<string[]> {
      const text = "select kind from everbeat.happening where topic = $1 order by id";
      return (await database.query<{ kind: string }>(text, [topic])).map(({ kind }) => kind);
    },
    /** As a release that forgets to tell does, or a table that was lost. Until the test is over. */
    async tellNobody(): Promise<void> {
      await database.query("alter function everbeat.tell_followers rename to tell_nobody");
      await database.query(
        `create function everbeat.tell_followers(p_kind text, p_topics text[], p_claims bigint[] default null, p_details json[] default null) returns integer
         language sql as 'select 0'`,
      );
      onTestFinished(async () => {
        await database.query("drop function everbeat.tell_followers");
        await database.query("alter function everbeat.tell_nobody rename to tell_followers");
      });
    },
  };
}

export async function readAll<Update>(stream: AsyncIterable<Update>): Promise<Update[]> {
  const updates: Update[] = [];
  for await (const update of stream) updates.push(update);
  return updates;
}

export async function next<Update>(stream: AsyncIterator<Update>): Promise<Update> {
  const { value, done } = await stream.next();
  if (done) throw new Error("the stream is over");
  return value;
}

/** Begun: what happens from now on is written. */
export async function begun(stream: AsyncIterableIterator<TaskUpdate, undefined>): Promise<TaskUpdate> {
  const first = await next(stream);
  expect(first.kind).toBe("state");
  return first;
}

export const summary = (updates: readonly (TaskUpdate | ReplicaUpdate)[]) =>
  updates.map((update) =>
    [update.kind, "phase" in update ? (update.phase ?? "") : "", "state" in update ? update.state : ""]
      .filter(Boolean)
      .join(" "),
  );

/** A handler that goes on when it is told to. */
export function held(name: string, options: Partial<Parameters<typeof defineTask>[0]> = {}) {
  let letGo = () => {};
  const released = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const task = defineTask({
    name,
    ...options,
    run: async (_: object, { signal }) => {
      await Promise.race([
        released,
        new Promise((_resolve, reject) =>
          signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
        ),
      ]);
      return "done";
    },
  });
  return { task, letGo };
}

export const steps = defineTask({
  name: "steps",
  run: async (_: object, { phase, progress }) => {
    await phase("one", { n: 1 });
    await phase("two");
    progress(0.5);
  },
});
export const STEPS = ["running", "progress one", "progress two", "progress two", "ended completed"];

import { setTimeout as pause } from "node:timers/promises";
import { defineTask } from "everbeat";
import { z } from "zod";

/** What ran when, so that the example can check that nothing ran that should not have. */
export class Diary {
  readonly startedAtMs: number[] = [];
  #running = 0;
  most = 0;

  async write<T>(work: () => Promise<T>): Promise<T> {
    this.startedAtMs.push(performance.now());
    this.most = Math.max(this.most, ++this.#running);
    try {
      return await work();
    } finally {
      this.#running--;
    }
  }
}

export const buildIndex = defineTask({
  name: "build-index",
  input: z.object({ revision: z.number() }),
  run: async ({ revision }) => `index of revision ${revision}`,
});

export const migrate = (diary: Diary) =>
  defineTask({
    name: "migrate",
    input: z.object({ step: z.number() }),
    run: ({ step }) =>
      diary.write(async () => {
        await pause(30);
        return step;
      }),
  });

export const callApi = (diary: Diary) =>
  defineTask({
    name: "call-api",
    input: z.object({ page: z.number() }),
    run: ({ page }) => diary.write(async () => page),
  });

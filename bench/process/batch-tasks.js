/** Batches that give back what they are given; in a module of their own, since runners load it. */
import { defineBatchTask } from "../../dist/index.js";

/** One task for each size of batch. */
export const batchTasks = (options = {}) =>
  [10, 100].map((batchSize) =>
    defineBatchTask({
      name: `batch-of-${batchSize}`,
      batchSize,
      ...options,
      run: (items) => items.map(({ input }) => input),
    }),
  );

export const tasks = batchTasks();

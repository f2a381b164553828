/** The measures, in the order in which they run. */
import { batches } from "./batches.js";
import { beats } from "./beats.js";
import { breadth } from "./breadth.js";
import { crash } from "./crash.js";
import { drainOfFourProcesses, drainOfOneProcess } from "./drain.js";
import { bulkEnqueue, singleEnqueue } from "./enqueue.js";
import { growth } from "./growth.js";
import { latency } from "./latency.js";
import { memory } from "./memory.js";
import { millisecondTasks } from "./millisecond.js";
import { replicas } from "./replicas.js";
import { shapes } from "./shapes.js";
import { size } from "./size.js";
import { start } from "./start.js";
import { sweep } from "./sweep.js";

export const MEASURES = [
  ...[drainOfOneProcess, drainOfFourProcesses, millisecondTasks],
  ...[bulkEnqueue, singleEnqueue, latency],
  ...[growth, shapes, breadth, size],
  ...[beats, replicas, sweep, crash, memory, start],
];

/** Not in the results that docs/performance.md shows: they run only where they are named, by `--only`. */
export const ON_REQUEST = [batches];

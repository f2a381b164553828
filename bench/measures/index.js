/** All measures, in the order in which they run. */
import { drainOfFourProcesses, drainOfOneProcess } from "./drain.js";
import { bulkEnqueue, singleEnqueue } from "./enqueue.js";
import { latency } from "./latency.js";

export const MEASURES = [drainOfOneProcess, drainOfFourProcesses, bulkEnqueue, singleEnqueue, latency];

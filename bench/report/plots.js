/** Which figures are drawn, and how. Each is left out where its measures were not run. */
import { labelOf } from "../systems/index.js";
import { barChart } from "./bar-chart.js";
import { figureOf, isBoundOf } from "./compare.js";
import { amountOf, inWords } from "./words.js";

/** By file name. */
export function drawPlots(results) {
  const plots = {
    "performance-drain.svg": drawDrain(results),
    "performance-enqueue.svg": drawEnqueue(results),
    "performance-latency.svg": drawLatency(results),
    "performance-costs.svg": drawCosts(results),
    "performance-growth.svg": drawGrowth(results),
    "performance-crash.svg": drawCrash(results),
    "performance-footprint.svg": drawFootprint(results),
  };
  return Object.fromEntries(Object.entries(plots).filter(([, svg]) => svg !== undefined));
}

function drawDrain(results) {
  return chart(results, "No-op tasks and tasks of 1 ms: tasks per second, more is better", { isShared: true }, [
    { measure: "drain", label: "drain, one worker process", figure: "perSecond" },
    { measure: "drain-4", label: "drain, four worker processes", figure: "perSecond" },
    { measure: "millisecond", label: "tasks of 1 ms, four processes with 100 at once", figure: "perSecond" },
  ]);
}

function drawEnqueue(results) {
  return chart(results, "Enqueue: tasks per second, more is better", {}, [
    { measure: "bulk-enqueue", label: "in bulk", figure: "perSecond" },
    { measure: "single-enqueue", label: "one by one, 16 callers", figure: "perSecond16" },
    { measure: "single-enqueue", label: "one by one, 1 caller", figure: "perSecond1" },
  ]);
}

function drawLatency(results) {
  return chart(results, "Enqueue to start at 100 tasks a second: less is better", {}, [
    { measure: "latency", label: "p50", figure: "p50", unit: "ms" },
    { measure: "latency", label: "p95", figure: "p95", unit: "ms" },
    { measure: "latency", label: "p99", figure: "p99", unit: "ms" },
  ]);
}

function drawCosts(results) {
  return chart(results, "Cost of a task from enqueue to end: less is better", {}, [
    { measure: "drain", label: "processor time, server and processes", figure: "total.processorMicros", unit: "µs" },
    { measure: "drain", label: "WAL", figure: "total.walBytes", unit: "bytes" },
  ]);
}

function drawCrash(results) {
  return chart(results, "SIGKILL of a worker to its task running again: less is better", {}, [
    { measure: "crash", figure: "ms", unit: "ms" },
  ]);
}

function drawFootprint(results) {
  return chart(results, "A worker process: less is better", {}, [
    { measure: "memory", label: "memory, idle", figure: "idleBytes", unit: "bytes" },
    { measure: "memory", label: "memory, 1,000 tasks in hand", figure: "ladenBytes", unit: "bytes" },
    { measure: "start", label: "process start to first claim", figure: "ms", unit: "ms" },
  ]);
}

const SITUATIONS = {
  pending: (measure) => `${amountOf(measure, "pending", "grownBy")} more pending`,
  ended: (measure) => `${amountOf(measure, "ended", "grownBy")} ended`,
  "idle-in-transaction": () => "a session idle in transaction",
  readers: () => "four long readers",
};

function drawGrowth({ measures }) {
  const { growth } = measures;
  if (!growth) return undefined;
  const bars = Object.entries(SITUATIONS).flatMap(([name, label]) => [
    barOf(growth, name, { figure: "perSecond", unit: "tasks/s", system: "everbeat", label: label(growth) }),
    barOf(growth, name, {
      figure: "emptyPerSecond",
      unit: "tasks/s",
      system: "bullmq-postgres",
      label: "the same, empty tables",
    }),
  ]);
  const title = "Drain by one process while tables grow or are held: tasks per second, more is better";
  return barChart({ title, groups: [{ bars: bars.filter(isDrawable) }] });
}

function chart({ measures }, title, options, parts) {
  const groups = parts
    .filter(({ measure }) => measures[measure])
    .map(({ measure, label, figure, unit }) => ({
      label,
      bars: Object.keys(measures[measure].samples)
        .map((name) => barOf(measures[measure], name, { figure, unit }))
        .filter(isDrawable),
    }))
    .filter(({ bars }) => bars.length > 0);
  return groups.length === 0 ? undefined : barChart({ title, groups, ...options });
}

function barOf(measure, name, { figure, unit, label = labelOf(name), system = name.split("/")[0] }) {
  const { median, min, max } = figureOf(measure, name, figure);
  const text = `${isBoundOf(measure, name) ? "> " : ""}${inWords(median, unit)}`;
  return { label, system, value: median, min, max, text };
}

function isDrawable({ value }) {
  return Number.isFinite(value);
}

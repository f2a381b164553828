/** What is to be reached, measure by measure: read from results, whether they were measured just now or are on record. */
import { beside, besideBest, within } from "./report/compare.js";
import { amountOf } from "./report/words.js";

/** In drains of tasks that do nothing, everybody is set for large batches. */
const OURS = "everbeat/tuned";
const GRAPHILE = "graphile-worker/tuned";
const POSTGRES_PEERS = [GRAPHILE, "pg-boss/tuned", "bullmq-postgres/tuned"];

/** Each line is worked out only where its measure was run. */
export const GOALS = [
  {
    measure: "drain",
    goal: "≥ 1.4 × graphile-worker tuned, ≥ 1.8 × pg-boss, ≥ 4 × BullMQ",
    lines: (m) => [
      beside(m, { figure: "perSecond", ours: OURS, other: GRAPHILE, atLeast: 1.4 }),
      beside(m, { figure: "perSecond", ours: OURS, other: "pg-boss/tuned", atLeast: 1.8 }),
      beside(m, { figure: "perSecond", ours: OURS, other: "bullmq/tuned", atLeast: 4 }),
    ],
  },
  {
    measure: "drain-4",
    goal: "≥ 1.1 × graphile-worker tuned",
    lines: (m) => [beside(m, { figure: "perSecond", ours: OURS, other: GRAPHILE, atLeast: 1.1 })],
  },
  {
    measure: "millisecond",
    goal: "≥ the best peer",
    lines: (m) => {
      const best = { figure: "perSecond", others: [GRAPHILE, "pg-boss/tuned", "bullmq/tuned"], atLeast: 1 };
      return [
        besideBest(m, {
          ...best,
          ours: "everbeat/repeatable",
          what: "as with every peer, a task whose worker dies runs again",
        }),
        besideBest(m, { ...best, what: "as by default, it fails" }),
      ];
    },
  },
  {
    measure: "bulk-enqueue",
    goal: "≥ 2 × the best PostgreSQL peer",
    lines: (m) => [besideBest(m, { figure: "perSecond", others: POSTGRES_PEERS, atLeast: 2 })],
  },
  {
    measure: "single-enqueue",
    goal: "16 callers: ≥ 3 × the best PostgreSQL peer",
    lines: (m) => [besideBest(m, { figure: "perSecond16", others: POSTGRES_PEERS, atLeast: 3 })],
  },
  {
    measure: "latency",
    goal: "p50 ≤ 0.75 × graphile-worker's, p99 ≤ its p99",
    lines: (m) => [
      beside(m, { figure: "p50", what: "p50 against graphile-worker", other: "graphile-worker/prompt", atMost: 0.75 }),
      beside(m, { figure: "p99", what: "p99 against graphile-worker", other: "graphile-worker/prompt", atMost: 1 }),
    ],
  },
  {
    measure: "drain",
    id: "costs",
    title: "Processor time and WAL per task, enqueue to end",
    goal: "below graphile-worker's, or explained",
    lines: (m) => [
      beside(m, {
        figure: "total.processorMicros",
        what: "processor time, server and processes",
        ours: OURS,
        other: GRAPHILE,
        atMost: 1,
      }),
      beside(m, { figure: "total.walBytes", what: "WAL bytes", ours: OURS, other: GRAPHILE, atMost: 1 }),
    ],
  },
  {
    measure: "growth",
    goal: "each ≥ 0.8 × the same on empty tables",
    lines: (m) => [
      besideEmpty(m, "pending", `${amountOf(m, "pending", "grownBy")} more pending`),
      besideEmpty(m, "ended", `${amountOf(m, "ended", "grownBy")} ended in the record`),
      besideEmpty(m, "idle-in-transaction", "another session idle in transaction"),
      besideEmpty(m, "readers", "four long readers"),
    ],
  },
  {
    measure: "shapes",
    goal: "no cliff: within 2 × of the plain case per task",
    lines: (m) => [
      besidePlain(m, "delayed", "plain", `${amountOf(m, "delayed", "tasks")} delayed tasks due at once`),
      besidePlain(m, "queues", "plain", "1,000 queues"),
      besidePlain(
        m,
        "exclusive",
        "one-at-a-time",
        `${amountOf(m, "exclusive", "pending")} tasks of one exclusive key, against plain ones one at a time`,
      ),
    ],
  },
  {
    measure: "size",
    goal: "processor time ≤ 0.75 × pg-boss's, which keeps results too",
    lines: (m) => [
      beside(m, {
        figure: "total.processorMicros",
        what: "processor time, server and processes, against pg-boss",
        ours: "everbeat/large",
        other: "pg-boss/large",
        atMost: 0.75,
      }),
      beside(m, {
        figure: "enqueue.serverMicros",
        what: "the server's time for an enqueue, against graphile-worker",
        ours: "everbeat/large",
        other: "graphile-worker/large",
        atMost: 1,
      }),
    ],
  },
  {
    measure: "breadth",
    goal: "within 1.5 × of one queue and nothing unknown, in the time to start, per task and at rest",
    lines: (m) => [
      ...besideNothing(m, "queues", `${amountOf(m, "queues", "queues")} queues ever used`),
      beside(m, {
        figure: "drainMs",
        ours: "queues",
        other: "plain",
        what: `${amountOf(m, "queues", "queues")} queues of one task each: enqueued and drained, against one queue`,
        atMost: 2,
      }),
      ...besideNothing(m, "unknown", `${amountOf(m, "unknown", "unknown")} unknown tasks before it`),
    ],
  },
  {
    measure: "batches",
    goal: "messages cost linear time: per item of 100 ≤ 1.5 × per item of 10",
    lines: (m) => [
      beside(m, {
        ...{ figure: "ms", otherFigure: "ms10", ours: "process", other: "process", atMost: 1.5 },
        what: "an item of a batch of 100 in a process runner, against one of a batch of 10",
      }),
    ],
  },
  {
    measure: "beats",
    goal: "one round of 10,000 running tasks on 10 replicas: ≤ 2 kB WAL",
    lines: (m) => [
      within(m, {
        figure: "beatWalBytes",
        what: `WAL of one round of beats, ${amountOf(m, "everbeat", "tasks")} running tasks`,
        unit: "bytes",
        atMost: 2_000,
      }),
    ],
  },
  {
    measure: "replicas",
    goal: "who could sweep costs next to nothing: 1,000 idle ones ≤ 0.2 of a core beside their beats",
    lines: (m) => [
      within(m, {
        figure: "sweepsEach",
        what: `sweeps and questions about them, for each of ${amountOf(m, "everbeat", "replicas")} more (0.2 ms/s: 1,000 take 0.2 of a core)`,
        unit: "ms/s",
        atMost: 0.2,
      }),
      within(m, {
        figure: "besideEach",
        what: "all that is no beat, for each of them: sweeps, looks for tasks and for its own claims, upkeep",
        unit: "ms/s",
        atMost: 0.2,
      }),
    ],
  },
  {
    measure: "sweep",
    goal: "p99 < 20 ms; 10,000 tasks of a dead replica recovered in < 1 s",
    lines: (m) => [
      within(m, { figure: "sweepP99", what: "idle sweep, p99", unit: "ms", atMost: 20 }),
      within(m, {
        figure: "recoveryMs",
        what: `recovery of ${amountOf(m, "everbeat", "recoveredTasks")} tasks`,
        unit: "ms",
        atMost: 1_000,
      }),
    ],
  },
  {
    measure: "crash",
    goal: "beside the peers at their defaults and at their fastest settings",
    lines: (m) =>
      ["graphile-worker/shipped", "pg-boss/shipped", "bullmq/shipped", "pg-boss/vigilant", "bullmq/vigilant"].map(
        (other) => beside(m, { figure: "ms", other, atMost: 1 }),
      ),
  },
  {
    measure: "memory",
    goal: "idle, and with 1,000 tasks in hand: below pg-boss's",
    lines: (m) => [
      beside(m, { figure: "idleBytes", what: "idle, against pg-boss", other: "pg-boss/laden", atMost: 1 }),
      beside(m, { figure: "ladenBytes", what: "1,000 in hand, against pg-boss", other: "pg-boss/laden", atMost: 1 }),
    ],
  },
  {
    measure: "start",
    goal: "below 1.5 × the fastest PostgreSQL peer",
    lines: (m) => [
      besideBest(m, {
        figure: "ms",
        others: [GRAPHILE, "pg-boss/tuned", "bullmq-postgres/tuned"],
        isLowerBetter: true,
        atMost: 1.5,
      }),
    ],
  },
];

/** The goals of what was measured, with their lines. */
export function judge(results) {
  return GOALS.filter(({ measure }) => results.measures[measure]).map((goal) => {
    const measure = results.measures[goal.measure];
    return {
      id: goal.id ?? goal.measure,
      title: goal.title ?? measure.title,
      goal: goal.goal,
      lines: goal.lines(measure),
    };
  });
}

function besideEmpty(measure, ours, what) {
  return beside(measure, { figure: "perSecond", otherFigure: "emptyPerSecond", ours, other: ours, what, atLeast: 0.8 });
}

function besidePlain(measure, ours, other, what) {
  return beside(measure, { figure: "microsPerTask", ours, other, what, atMost: 2 });
}

function besideNothing(measure, ours, what) {
  const line = (figure, which) =>
    beside(measure, { figure, ours, other: "plain", what: `${what}: ${which}`, atMost: 1.5 });
  return [
    line("p50", "enqueue to start, p50"),
    line("p99", "p99"),
    line("serverMicros", "the server's time per task"),
    line("idleMsPerSecond", "the server at rest"),
  ];
}

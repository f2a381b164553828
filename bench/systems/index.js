/** The systems and settings that are measured, by the names that the results use. */
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = dirname(fileURLToPath(import.meta.url));

export const OURS = "everbeat";

/** `server`: where it keeps its tasks. */
const ADAPTERS = {
  everbeat: { adapter: "everbeat.js", server: "postgres", label: "Everbeat" },
  "graphile-worker": { adapter: "graphile-worker.js", server: "postgres", label: "graphile-worker" },
  "pg-boss": { adapter: "pg-boss.js", server: "postgres", label: "pg-boss" },
  bullmq: { adapter: "bullmq.js", server: "redis", label: "BullMQ (Redis, AOF)" },
  "bullmq-postgres": { adapter: "bullmq.js", server: "postgres", label: "BullMQ (PostgreSQL)" },
};

/** How a variant is called in tables; what it stands for is in the adapter. */
const VARIANTS = {
  documented: "as documented",
  prompt: "set for latency",
  shipped: "as shipped",
  vigilant: "fastest recovery",
  laden: "batches of 1,000",
  large: "set for large tasks",
  repeatable: "tasks that may be repeated",
};

/** "graphile-worker/tuned": a system with one of the settings that its adapter names. */
export function systemNamed(name) {
  const [system, variant] = name.split("/");
  const { adapter, server, label } = ADAPTERS[system];
  return {
    name,
    server,
    variant,
    adapter: join(folder, adapter),
    label: variant ? `${label}, ${VARIANTS[variant] ?? variant}` : label,
  };
}

export function labelOf(name) {
  return name in ADAPTERS || name.includes("/") ? systemNamed(name).label : name;
}

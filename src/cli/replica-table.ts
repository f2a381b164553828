/** Replicas as a table, with what each holds and how its heart is doing. */
import { formatDuration } from "../config/duration.ts";
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { HeartState, Reliability, ReplicaWithHeart, RunnerRow } from "../index.ts";
import type { Colours } from "./colours.ts";
import { heartWords, vitalsWords } from "./heart-words.ts";
import type { Screen } from "./screen.ts";
import { inColourOf, marked } from "./states.ts";
import { type Column, NOTHING, table } from "./table.ts";
import { age, fromNow, unheardWords } from "./times.ts";

export interface ReplicaLook {
  readonly now: Date;
  readonly settings: RecoverySettings;
  /** Also what their last beats carried. */
  readonly withVitals?: boolean;
  readonly indent?: number;
  /** Of their machines, by id. */
  readonly reliability?: ReadonlyMap<string, Reliability | null>;
}

/** Where its runners were asked for, too, those that are there. */
type ShownReplica = ReplicaWithHeart & { readonly runners?: readonly RunnerRow[] };

const PRESENCES: readonly ReplicaWithHeart["status"][] = ["online", "draining", "dead", "offline"];

/** Who is here comes first. */
export function hereFirst<Row extends Pick<ReplicaWithHeart, "status">>(replicas: readonly Row[]): Row[] {
  return PRESENCES.flatMap((is) => replicas.filter((row) => row.status === is));
}

export function replicaTable(
  replicas: readonly ShownReplica[],
  look: ReplicaLook,
  { colours, width }: Screen,
): string[] {
  const { now, settings } = look;
  const columns: Column<ShownReplica>[] = [
    { title: "REPLICA", value: (row) => row.id },
    {
      title: "STATUS",
      value: (row) => marked(presenceOf(row)),
      style: (text, row) => inColourOf(presenceOf(row), text, colours),
    },
    { title: "CLAIMED", value: (row) => String(row.claimed), align: "right" },
    { title: "RUNNING", value: (row) => String(row.running), align: "right" },
    {
      title: "HEART",
      value: (row) => (row.unheardSince === null ? heartWords(row, settings) : unheardWords(row.unheardSince, now)),
      style: (text, row) => inColourOfHeart(row.heart, text, colours),
    },
    { title: "SILENCE", value: silenceOf, align: "right" },
    { title: "SEEN", value: (row) => fromNow(row.seenAt, now) },
    { title: "AGE", value: (row) => age(row.startedAt, now) },
    { title: "HOST", value: (row) => row.hostname },
    {
      title: "DEATHS THERE",
      value: ({ machineId }) => deathsOn(look.reliability?.get(machineId ?? "")),
      align: "right",
      isOptional: true,
    },
    { title: "PROCESS", value: (row) => String(row.pid), align: "right" },
    {
      title: "RUNNERS",
      value: ({ runners = [], status }) => (status === "dead" ? "" : runnersWords(runners)),
      isOptional: true,
      isBrief: true,
    },
    { title: "VERSION", value: (row) => row.version },
    { title: "VITALS", label: "", value: (row) => (look.withVitals ? vitalsWords(row) : ""), isOptional: true },
    { title: "QUEUES", value: (row) => row.queues?.join(", ") ?? "all", isBrief: true },
    {
      ...{ title: "TASKS", value: (row) => row.tasks.join(", "), atLeast: 20, isBrief: true },
      style: (text) => colours.dim(text),
    },
  ];
  return table(replicas, columns, { colours, width, indent: look.indent ?? 2 });
}

/** A replica has a new id at every start, so what died before it is known of its machine only. */
function deathsOn(machine: Reliability | null | undefined): string {
  if (!machine || machine.deaths === 0) return "";
  const rate = `${machine.deaths}, one in ${formatDuration(machine.meanMsBetweenDeaths ?? 0)}`;
  return machine.isFlapping ? `${rate}, flaps` : rate;
}

/** While nobody listens, the status that is on record for a replica means nothing. */
function presenceOf({ status, unheardSince }: ShownReplica): ShownReplica["status"] | "unheard" {
  return unheardSince === null ? status : "unheard";
}

/** Of one that is gone it means nothing any more. */
function silenceOf({ status, silentForMs }: ShownReplica): string {
  if (status === "offline" || status === "dead" || silentForMs === null) return NOTHING;
  return formatDuration(Math.max(0, silentForMs));
}

/** "process 812 busy, thread idle". */
function runnersWords(runners: readonly RunnerRow[]): string {
  return runners.map(({ kind, pid, status }) => `${kind === "process" ? `process ${pid}` : kind} ${status}`).join(", ");
}

function inColourOfHeart(state: HeartState, text: string, colours: Colours): string {
  if (state === "fresh") return colours.green(text);
  if (state === "dead" || state === "dying") return colours.red(text);
  return state === "offline" ? colours.dim(text) : colours.yellow(text);
}

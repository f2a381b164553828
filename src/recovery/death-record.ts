/** A death on record, as far as it can be understood: another version may have written it, or somebody by hand. Pure. */

import type { GroupMemory } from "../heart/group-memory.ts";
import { storableText } from "../task/error-record.ts";
import { CAUSES, type Death } from "./recovery-action.ts";

/** The other fields come from elsewhere: whose death it is, and what was found out since. */
type NotOnRecord =
  | "replicaId"
  | "machineId"
  | "hostname"
  | "runner"
  | "beside"
  | "before"
  | "cameBack"
  | "probableCause"
  | "sentence";
export type DeathRecord = Partial<Omit<Death, NotOnRecord>>;

type Read<T> = (value: unknown) => T | undefined;
const boolean: Read<boolean> = (value) => (typeof value === "boolean" ? value : undefined);
const number: Read<number> = (value) => (Number.isFinite(value) ? (value as number) : undefined);
const integer: Read<number> = (value) => (Number.isInteger(value) ? (value as number) : undefined);
const text: Read<string> = (value) => (typeof value === "string" ? storableText(value) : undefined);

const group: Read<GroupMemory> = (value) => {
  const found = (typeof value === "object" && value !== null ? value : {}) as Record<keyof GroupMemory, unknown>;
  const [used, limit, kills] = [number(found.used), number(found.limit), number(found.kills)];
  if (used === undefined || kills === undefined || limit === undefined || limit <= 0) return undefined;
  return { used, limit, kills };
};

/** One for each field: the compiler asks for those that are new. */
const FIELDS: { readonly [Field in keyof Required<DeathRecord>]: Read<DeathRecord[Field]> } = {
  because: (value) =>
    typeof value === "string" && Object.hasOwn(CAUSES, value) ? (value as Death["because"]) : undefined,
  silentForMs: number,
  vitals: (value) => (typeof value === "object" ? value : undefined),
  wasDraining: boolean,
  isCharged: boolean,
  exitCode: integer,
  signal: text,
  group,
  stack: text,
  blockedForMs: number,
};

export function readDeath(value: unknown): DeathRecord {
  const record = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  const read = Object.entries(FIELDS).map(([field, readField]) => [field, readField(record[field])] as const);
  return Object.fromEntries(read.filter(([, found]) => found !== undefined));
}

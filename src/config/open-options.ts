/** The options of `Everbeat.open`, checked once. */
import type pg from "pg";
import type { Logger, LogLevel } from "../log.ts";
import { type AlertChannel, areChannels } from "./alert-channels.ts";
import {
  anything,
  type Check,
  checkOptions,
  describe,
  isBoolean,
  isDuration,
  isFunction,
  isInteger,
  isOneOf,
  isText,
  pathOf,
} from "./checks.ts";
import type { Duration } from "./duration.ts";
import { Problems } from "./problems.ts";
import { checkRecovery, type RecoveryOptions, type RecoverySettings } from "./recovery-options.ts";

export type DatabaseOption = string | { urls: readonly string[]; role?: "primary" | "any" } | pg.Pool;

export interface OpenOptions {
  /** A URL (several hosts are fine), a list of URLs of which the primary is used, or a `pg` Pool of yours. Default: DATABASE_URL, else an embedded PostgreSQL. */
  database?: DatabaseOption | undefined;
  /** The schema that holds everything (default "everbeat"). */
  schema?: string | undefined;
  /**
   * Bring the schema up to date on opening (default true). With false, an outdated schema is refused. With "later", it is opened as it is, for
   * those who look first (`schema`, `doctor`) and call `migrate` themselves.
   */
  migrate?: boolean | "later" | undefined;
  /** Connections in the pool (default 10). */
  poolSize?: number | undefined;
  /** The folder of the embedded PostgreSQL (default ".everbeat" in the current folder, or EVERBEAT_FOLDER). */
  folder?: string | undefined;
  /** The largest input, metadata or result, in bytes as JSON (default 1 MiB). */
  maxJsonBytes?: number | undefined;
  /** How long a cancelled task may take to stop before it is ended for it (default 10 s). */
  cancelGrace?: Duration | undefined;
  /** How long a worker waits for the reply to a statement of its own before that counts as lost (default 30 s). */
  replyTimeout?: Duration | undefined;
  /** How silence is judged and what follows. */
  recovery?: RecoveryOptions | undefined;
  /**
   * Run the services of the cluster also while this process runs no worker: listen for workers that die, recover their tasks, do the upkeep (default
   * false: workers do so by themselves, for as long as one is left). By the settings of the workers, where there are any on record.
   */
  runsServices?: boolean | undefined;
  /** Where every alert that is raised or resolved is delivered to: a webhook, mail, a pager. */
  alertChannels?: readonly AlertChannel[] | undefined;
  /** Where logs go: a logger such as pino, or a level for JSON lines on standard error (default "info"). */
  log?: Logger | LogLevel | undefined;
  /** Told about long steps, such as the first start of the embedded server. */
  onProgress?: ((message: string) => void) | undefined;
}

export interface OpenSettings {
  readonly database: DatabaseOption | undefined;
  readonly schema: string;
  readonly migrate: boolean | "later";
  readonly poolSize: number;
  readonly folder: string | undefined;
  readonly maxJsonBytes: number;
  readonly cancelGraceMs: number;
  readonly replyTimeoutMs: number;
  readonly recovery: RecoverySettings;
  readonly runsServices: boolean;
  readonly alertChannels: readonly AlertChannel[];
  readonly log: Logger | LogLevel;
  readonly onProgress: ((message: string) => void) | undefined;
}

const METHODS = ["debug", "info", "warn", "error"] as const;
const LEVELS = [...METHODS, "silent"] as const;
const A_LOG =
  'must be a level ("debug", "info", "warn", "error" or "silent") or a logger with the methods debug, info, warn and error, such as pino or console';

const isDatabase: Check<DatabaseOption> = (value, path, problems) => {
  if (typeof value === "string" && value !== "") return value;
  const object = value as { urls?: unknown; connect?: unknown } | null;
  if (typeof object === "object" && (Array.isArray(object?.urls) || typeof object?.connect === "function"))
    return value as DatabaseOption;
  problems.add(path, `must be a URL, { urls: [...] } or a pg Pool, not ${describe(value)}`);
  return undefined;
};

const isLog: Check<Logger | LogLevel> = (value, path, problems) => {
  if (typeof value === "string") return isOneOf(LEVELS)(value, path, problems);
  const given = (value ?? {}) as Record<string, unknown>;
  const missing = METHODS.filter((method) => typeof given[method] !== "function");
  const isFilterUsable = given["isLevelEnabled"] === undefined || typeof given["isLevelEnabled"] === "function";
  if (missing.length === 0 && isFilterUsable) return value as Logger;
  if (missing.length > 0) problems.add(path, `${A_LOG}; ${lack(value, missing)}`);
  else isFunction(given["isLevelEnabled"], pathOf(path, "isLevelEnabled"), problems);
  return undefined;
};

function lack(value: unknown, missing: readonly string[]): string {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return `not ${describe(value)}`;
  return `this object lacks ${missing.join(", ")}`;
}

const isMigrate: Check<boolean | "later"> = (value, path, problems) => {
  if (typeof value === "boolean" || value === "later") return value;
  problems.add(path, `must be true, false or "later", not ${describe(value)}`);
  return undefined;
};

const SHAPE = {
  database: isDatabase,
  // It is also the name of the notification channel, hence the length.
  schema: isText({
    max: 60,
    pattern: /^(?!pg_)[a-z_][a-z0-9_]*$/,
    hint: "1 to 60 lower-case letters, digits or _, not starting with a digit, nor with pg_, which PostgreSQL keeps for itself",
  }),
  migrate: isMigrate,
  poolSize: isInteger({ min: 2, max: 1_000 }),
  folder: isText({ max: 4_000 }),
  maxJsonBytes: isInteger({ min: 1_024, max: 256 * 1_048_576 }),
  cancelGrace: isDuration({ minMs: 0, maxMs: 86_400_000 }),
  replyTimeout: isDuration({ minMs: 1_000, maxMs: 3_600_000 }),
  recovery: anything,
  runsServices: isBoolean,
  alertChannels: areChannels,
  log: isLog,
  onProgress: isFunction as Check<(message: string) => void>,
};

export function checkOpen(options: OpenOptions | undefined): OpenSettings {
  const problems = new Problems();
  // Without a word of it: an address has a password in it.
  if (typeof options === "string") problems.add("", 'must be an object such as { database: "postgres://…" }, not text');
  const given = checkOptions(typeof options === "string" ? {} : options, SHAPE, { path: "", problems });
  const recovery = checkRecovery(given.recovery, problems);
  problems.throwIfAny("Everbeat.open");
  return Object.freeze({
    database: given.database,
    schema: given.schema ?? "everbeat",
    migrate: given.migrate ?? true,
    poolSize: given.poolSize ?? 10,
    folder: given.folder,
    maxJsonBytes: given.maxJsonBytes ?? 1_048_576,
    cancelGraceMs: given.cancelGrace ?? 10_000,
    replyTimeoutMs: given.replyTimeout ?? 30_000,
    recovery,
    runsServices: given.runsServices ?? false,
    alertChannels: given.alertChannels ?? [],
    log: given.log ?? "info",
    onProgress: given.onProgress,
  });
}

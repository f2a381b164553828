/** Structured logs: the interface that handlers get, which pino and its kin already fit, and a plain default. */
import { readableJson } from "./control-characters.ts";
import { joinFields, type LogFields, showableFields } from "./log-fields.ts";

export type { LogFields } from "./log-fields.ts";
export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

export interface Logger {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  /** Spares making lines that nobody will see. */
  isLevelEnabled?(level: Exclude<LogLevel, "silent">): boolean;
}

export const LEVELS = ["debug", "info", "warn", "error"] as const;

/**
 * One JSON object per line, for programs and for a terminal: no text that is logged commands it or looks like another line. A line that cannot
 * be written is dropped: logging must never be what stops a worker.
 */
export function jsonLogger(options: { level: LogLevel; write: (line: string) => void }): Logger {
  const threshold = options.level === "silent" ? LEVELS.length : LEVELS.indexOf(options.level);
  const writer = (level: (typeof LEVELS)[number], rank: number) => (fields: LogFields, message: string) => {
    if (rank < threshold) return;
    const time = new Date().toISOString();
    writeFirst(options.write, [
      () => jsonLine(joinFields({ time, level, message }, showableFields(fields))),
      () => jsonLine({ time, level, message: String(message), note: UNSHOWABLE }),
    ]);
  };
  return {
    debug: writer("debug", 0),
    info: writer("info", 1),
    warn: writer("warn", 2),
    error: writer("error", 3),
    isLevelEnabled: (level) => LEVELS.indexOf(level) >= threshold,
  };
}

function jsonLine(record: object): string {
  return `${readableJson(JSON.stringify(record))}\n`;
}

export const UNSHOWABLE = "the fields of this line could not be shown";

/** The first of these lines that can be made and written. */
export function writeFirst(write: (line: string) => void, lines: readonly (() => string)[]): void {
  for (const line of lines) {
    try {
      write(line());
      return;
    } catch {
      // A handler logs what it likes: circles, big integers, objects that throw.
    }
  }
}

/** The same logger with fields that every line carries. */
export function withFields(logger: Logger, fields: LogFields): Logger {
  return {
    debug: (more, message) => logger.debug(joinFields(fields, more), message),
    info: (more, message) => logger.info(joinFields(fields, more), message),
    warn: (more, message) => logger.warn(joinFields(fields, more), message),
    error: (more, message) => logger.error(joinFields(fields, more), message),
    ...(logger.isLevelEnabled && { isLevelEnabled: (level) => logger.isLevelEnabled?.(level) ?? true }),
  };
}

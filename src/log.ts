/** Structured logs: the interface that handlers get, which pino and its kin already fit, and a plain default. */
export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";
export type LogFields = Readonly<Record<string, unknown>>;

export interface Logger {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  /** Spares making lines that nobody will see. */
  isLevelEnabled?(level: Exclude<LogLevel, "silent">): boolean;
}

const LEVELS = ["debug", "info", "warn", "error"] as const;

/** One JSON object per line. A line that cannot be written is dropped: logging must never be what stops a worker. */
export function jsonLogger(options: { level: LogLevel; write: (line: string) => void }): Logger {
  const threshold = options.level === "silent" ? LEVELS.length : LEVELS.indexOf(options.level);
  const writer = (level: (typeof LEVELS)[number], rank: number) => (fields: LogFields, message: string) => {
    if (rank < threshold) return;
    try {
      options.write(`${JSON.stringify({ time: new Date().toISOString(), level, message, ...fields })}\n`);
    } catch {
      options.write(`${JSON.stringify({ level, message, note: "the fields of this line could not be shown" })}\n`);
    }
  };
  return {
    debug: writer("debug", 0),
    info: writer("info", 1),
    warn: writer("warn", 2),
    error: writer("error", 3),
    isLevelEnabled: (level) => LEVELS.indexOf(level) >= threshold,
  };
}

/** The same logger with fields that every line carries. */
export function withFields(logger: Logger, fields: LogFields): Logger {
  return {
    debug: (more, message) => logger.debug({ ...fields, ...more }, message),
    info: (more, message) => logger.info({ ...fields, ...more }, message),
    warn: (more, message) => logger.warn({ ...fields, ...more }, message),
    error: (more, message) => logger.error({ ...fields, ...more }, message),
  };
}

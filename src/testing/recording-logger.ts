/** A logger that keeps its lines instead of writing them. */
import type { LogFields, Logger, LogLevel } from "../log.ts";

type LineLevel = Exclude<LogLevel, "silent">;

export interface LogLine {
  readonly level: LineLevel;
  readonly message: string;
  readonly fields: LogFields;
}

export function recordingLogger(): Logger & { readonly lines: readonly LogLine[] } {
  const lines: LogLine[] = [];
  const keep = (level: LineLevel) => (fields: LogFields, message: string) =>
    void lines.push({ level, message, fields });
  return { lines, debug: keep("debug"), info: keep("info"), warn: keep("warn"), error: keep("error") };
}

/** A logger that keeps its lines instead of writing them. */
import type { LogFields, Logger } from "../log.ts";

export interface LogLine {
  readonly level: keyof Logger;
  readonly message: string;
  readonly fields: LogFields;
}

export function recordingLogger(): Logger & { readonly lines: readonly LogLine[] } {
  const lines: LogLine[] = [];
  const keep = (level: keyof Logger) => (fields: LogFields, message: string) =>
    void lines.push({ level, message, fields });
  return { lines, debug: keep("debug"), info: keep("info"), warn: keep("warn"), error: keep("error") };
}

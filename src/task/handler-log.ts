/** The log that a handler has: it takes fields and a text in either order, a text alone, or an error, as loggers that people know do. */
import type { LogFields, LogLevel } from "../log.ts";
import { joinFields } from "../log-fields.ts";

type LineLevel = Exclude<LogLevel, "silent">;

export interface LogCall {
  (message: string, more?: LogFields | Error): void;
  /** The error becomes the field `err`; without a text, the line says what the error says. */
  (error: Error, message?: string): void;
  (fields: LogFields, message?: string): void;
}

export interface HandlerLog extends Readonly<Record<LineLevel, LogCall>> {}

/** `write` is given plain fields and a text, however the handler put it. */
export function createHandlerLog(write: (level: LineLevel, fields: LogFields, message: string) => void): HandlerLog {
  const call =
    (level: LineLevel): LogCall =>
    (first: unknown, second?: unknown) => {
      const { fields, message } = toLine(first, second);
      write(level, fields, message);
    };
  return { debug: call("debug"), info: call("info"), warn: call("warn"), error: call("error") };
}

function toLine(first: unknown, second: unknown): { fields: LogFields; message: string } {
  try {
    if (first instanceof Error) return { fields: { err: first }, message: textOf(second ?? first.message) };
    if (typeof first === "object" || first === undefined)
      return { fields: joinFields({}, first), message: textOf(second) };
    return { fields: second instanceof Error ? { err: second } : joinFields({}, second), message: textOf(first) };
  } catch {
    return { fields: {}, message: "a log line that cannot be read" };
  }
}

function textOf(message: unknown): string {
  return message === undefined ? "" : String(message);
}

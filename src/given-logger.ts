/** A logger that a user gives: whatever it throws, the work goes on. */
import type { LEVELS, LogFields, Logger } from "./log.ts";
import type { LogHealth } from "./log-health.ts";
import { examinable, inOneLine, toErrorRecord } from "./task/error-record.ts";

/** The same logger, whose errors are nobody else's: a line that it does not take is dropped and counted. */
export function neverThrowing(logger: Logger, health: LogHealth): Logger {
  const noteError = (error: unknown) => health.noteDropped(1, reasonOf(error));
  const writer = (level: (typeof LEVELS)[number]) => (fields: LogFields, message: string) => {
    try {
      const answer: unknown = logger[level](fields, message);
      if (answer instanceof Promise) answer.then(() => health.noteWritten(), noteError);
      else health.noteWritten();
    } catch (error) {
      noteError(error);
    }
  };
  const isLevelEnabled: Logger["isLevelEnabled"] = (level) => {
    try {
      return logger.isLevelEnabled?.(level) ?? true;
    } catch {
      return true;
    }
  };
  return {
    ...{ debug: writer("debug"), info: writer("info"), warn: writer("warn"), error: writer("error") },
    ...(logger.isLevelEnabled && { isLevelEnabled }),
  };
}

/** What was thrown may be anything: long, or nothing that can be made into text. */
function reasonOf(thrown: unknown): string {
  return inOneLine(toErrorRecord(new Error("the logger threw an error", { cause: examinable(thrown) })));
}

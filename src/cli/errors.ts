/** One error per way in which a command can go wrong that only the command line knows. */
import { EverbeatError } from "../errors.ts";
import { formatted } from "./formatted.ts";

/** The command was understood, and what was given with it does not go together. */
export class UsageError extends EverbeatError {
  readonly code = "USAGE";
  readonly kind = "bad-request";
}

export class TasksFileMissingError extends EverbeatError {
  readonly code = "TASKS_FILE_MISSING";
  readonly kind = "not-found";
  constructor(file: string, nearest: string | undefined) {
    const hint = nearest
      ? `Did you mean ${nearest}?`
      : "Give the path of a file that exports tasks made by defineTask, such as src/tasks.ts.";
    super(`There is no file ${file}. ${hint}`);
  }
}

export class TasksFileIsFolderError extends EverbeatError {
  readonly code = "TASKS_FILE_IS_FOLDER";
  readonly kind = "not-found";
  constructor(folder: string) {
    super(
      `${folder} is a folder. Give the path of a file in it that exports tasks made by defineTask, such as tasks.ts.`,
    );
  }
}

export class TasksFileNotCodeError extends EverbeatError {
  readonly code = "TASKS_FILE_NOT_CODE";
  readonly kind = "refused";
  constructor(file: string, options?: { cause: unknown }) {
    super(
      `${file} is neither JavaScript nor TypeScript. Give the path of a file that exports tasks made by defineTask, such as src/tasks.ts.`,
      options,
    );
  }
}

export class TasksFileBrokenError extends EverbeatError {
  readonly code = "TASKS_FILE_BROKEN";
  readonly kind = "refused";
  constructor(file: string, detail: string, options: { cause: unknown }) {
    super(`${file} could not be loaded. Mend what it says, then start again:\n${detail}`, options);
  }
}

export class TasksFileNeverEndsError extends EverbeatError {
  readonly code = "TASKS_FILE_NEVER_ENDS";
  readonly kind = "refused";
  constructor(file: string) {
    super(
      `${file} could not be loaded: a top-level await in it, or in a file that it imports, never ends. It waits for something that nothing in this process will do.`,
    );
  }
}

export class NoTasksError extends EverbeatError {
  readonly code = "NO_TASKS";
  readonly kind = "refused";
  constructor(files: readonly string[], exported: readonly string[]) {
    const found = exported.length > 0 ? `only ${exported.join(", ")}` : "nothing";
    super(
      `No task is exported by ${files.join(", ")}: found ${found}. Export what defineTask or defineBatchTask returns.`,
    );
  }
}

export class SameNameError extends EverbeatError {
  readonly code = "SAME_NAME";
  readonly kind = "refused";
  constructor(name: string, files: readonly string[]) {
    super(`Two tasks are named "${name}" (in ${files.join(" and ")}). Give each a name of its own.`);
  }
}

export class DemoFailedError extends EverbeatError {
  readonly code = "DEMO_FAILED";
  readonly kind = "internal";
  constructor(problem: string) {
    super(`The demo did not go as it should: ${problem}`);
  }
}

export class DemoInterruptedError extends EverbeatError {
  readonly code = "DEMO_INTERRUPTED";
  readonly kind = "not-now";
  constructor() {
    super("The demo was stopped before its end. Its workers and its database are gone.");
  }
}

/** Ctrl-C in the middle of an order to many tasks. `isUnderWay`: what became of one more batch was not waited for. */
export class OrderInterruptedError extends EverbeatError {
  readonly code = "INTERRUPTED";
  readonly kind = "not-now";
  constructor({ done, of }: { done: number; of: number }, isUnderWay: boolean) {
    const more = isUnderWay ? ", and perhaps some more" : "";
    super(
      of === 0
        ? "Stopped before anything was done. The same command does it."
        : `Stopped: ${formatted(done)} of ${formatted(of)} tasks are done${more}. The same command goes on with the rest.`,
    );
  }
}

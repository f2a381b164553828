/** Loads the tasks that files export, in JavaScript or TypeScript, on any Node that we support. */
import { readdirSync, statSync } from "node:fs";
import { basename, dirname, extname, join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { nearestKey } from "../config/nearest-key.ts";
import * as everbeat from "../index.ts";
import { createImporter, type Importer } from "../runner/import-module.ts";
import { type AnyTask, fromModule, tasksIn } from "../task/define-task.ts";
import { describeBreakage } from "./describe-breakage.ts";
import {
  NoTasksError,
  SameNameError,
  TasksFileBrokenError,
  TasksFileIsFolderError,
  TasksFileMissingError,
  TasksFileNotCodeError,
} from "./errors.ts";

export async function loadTasks(files: readonly string[], cwd: string = process.cwd()): Promise<readonly AnyTask[]> {
  const importFile = createImporter(cwd, async () => everbeat);
  const found = new Map<string, { task: AnyTask; file: string }>();
  const others: string[] = [];
  for (const file of files) {
    const exports = await load(resolve(cwd, file), file, importFile);
    for (const [name, value] of Object.entries(exports)) {
      const tasks = tasksIn(value);
      if (tasks.length === 0) others.push(`${name} (${typeof value})`);
      for (const task of tasks) note(found, task, file);
    }
  }
  if (found.size === 0) throw new NoTasksError(files, others);
  return [...found.values()].map(({ task, file }) => fromModule(task, pathToFileURL(resolve(cwd, file)).href));
}

async function load(path: string, given: string, importFile: Importer): Promise<Record<string, unknown>> {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isDirectory()) throw new TasksFileIsFolderError(given);
  if (!found?.isFile()) throw new TasksFileMissingError(given, nearestFile(path));
  // What Node says about it is about import attributes, and differs between its versions.
  if (extname(path) === ".json") throw new TasksFileNotCodeError(given);
  try {
    return await importFile(path);
  } catch (error) {
    if (isNoCode(error, path)) throw new TasksFileNotCodeError(given, { cause: error });
    throw new TasksFileBrokenError(given, describeBreakage(error), { cause: error });
  }
}

/** Node does not know how to load this very file; one that it imports is named in the error, too. */
function isNoCode(error: unknown, path: string): boolean {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  return code === "ERR_UNKNOWN_FILE_EXTENSION" && String(message).includes(path);
}

function nearestFile(path: string): string | undefined {
  const folder = dirname(path);
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return undefined;
  const candidates = readdirSync(folder).filter((name) => /\.[cm]?[jt]s$/.test(name) && !name.endsWith(".d.ts"));
  const nearest = nearestKey(basename(path), candidates);
  return nearest === undefined ? undefined : relative(process.cwd(), join(folder, nearest)) || nearest;
}

/** The same task may be exported twice, by name and in a list; two tasks of one name are a mistake. */
function note(found: Map<string, { task: AnyTask; file: string }>, task: AnyTask, file: string): void {
  const known = found.get(task.name);
  if (known && known.task !== task) throw new SameNameError(task.name, [...new Set([known.file, file])]);
  found.set(task.name, { task, file });
}

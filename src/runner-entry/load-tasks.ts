/** Finds a runner's tasks among the exports of their modules. */
import { fileURLToPath } from "node:url";
import { EverbeatError } from "../errors.ts";
import { createImporter } from "../runner/import-module.ts";
import type { RunnerCharge } from "../runner/protocol.ts";
import { type AnyTask, tasksIn } from "../task/define-task.ts";

class TaskNotExportedError extends EverbeatError {
  readonly code = "TASK_NOT_EXPORTED";
  readonly kind = "refused";
  constructor(names: readonly string[], modules: readonly string[]) {
    super(
      `A runner cannot find ${names.map((name) => `"${name}"`).join(", ")} among the exports of ${modules.map((url) => fileURLToPath(url)).join(", ")}. ` +
        'Export the task from the module that its "module" names.',
    );
  }
}

export async function loadTasks({ modules, names, cwd }: RunnerCharge): Promise<ReadonlyMap<string, AnyTask>> {
  const importFile = createImporter(cwd, () => import("../index.ts"));
  const found = new Map<string, AnyTask>();
  for (const module of modules) {
    for (const value of Object.values(await importFile(fileURLToPath(module)))) {
      for (const task of tasksIn(value)) found.set(task.name, task);
    }
  }
  const missing = names.filter((name) => !found.has(name));
  if (missing.length > 0) throw new TaskNotExportedError(missing, modules);
  return found;
}

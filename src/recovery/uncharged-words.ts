/** Why a crash is charged to nobody, as far as its error says so. Pure. */
import { type DeathInError, readDeathIn } from "./death-in-error.ts";
import { counted } from "./explain-words.ts";

export function unchargedWords(error: unknown): string | undefined {
  const why = reasonOf(readDeathIn(error));
  return why && `no crash is charged: ${why}`;
}

function reasonOf({
  inRunner,
  before,
  inWorker,
  withinLimit,
  hasStrangers,
  runner,
  wasDraining,
  exitCall,
}: DeathInError): string | undefined {
  if (exitCall) return `${exitCall.name} ${exitCall.taskId}, which had ended before, had called process.exit()`;
  if (wasDraining) return "its worker had been told to go";
  const words = [
    others(before, (tasks) => `its runner had run ${tasks} before it, which may have left something behind`, "task"),
    others(inRunner, (tasks) => `${tasks} ran in the same runner`),
    others(
      inWorker,
      (tasks) =>
        `${tasks} ran ${runner ? "elsewhere in its worker, within the same memory limit" : "in the same worker"}`,
    ),
    others(withinLimit, (tasks) => `${tasks} ran, or had just run, in the workers that share its memory limit`),
  ];
  if (hasStrangers)
    words.push("it was killed for a limit of memory that other processes share, and was not seen to be what grew");
  return words.filter((part) => part !== undefined).join(", and ") || undefined;
}

function others(count: number | undefined, words: (tasks: string) => string, what = "other task"): string | undefined {
  return count ? words(counted(count, what)) : undefined;
}

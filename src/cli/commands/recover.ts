/** `everbeat recover`: what workers do by themselves, done by hand. Or the word that a held recovery waits for. */
import { type Command, Option } from "commander";
import type { Everbeat } from "../../everbeat.ts";
import { PartlyRecoveredError } from "../../recovery/partly-recovered.ts";
import type { StaleTask } from "../../recovery/stale-tasks.ts";
import { toErrorRecord } from "../../task/error-record.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { EXIT, type ExitCode } from "../exit-codes.ts";
import { withEverbeat } from "../open-for-command.ts";
import { notYetStaleWords } from "../silent-owners.ts";
import { addStaleFilters, type OwnedState, type StaleFilters, toStaleQuery } from "../stale-filters.ts";
import { staleTable } from "../stale-table.ts";
import { type Column, table } from "../table.ts";
import { HOW_TO_BE_SURE, readUnheard, type Unheard, unsureWords } from "../unheard.ts";
import { prose } from "../wrap.ts";

interface RecoverOptions extends StaleFilters {
  readonly dryRun?: boolean;
  readonly running?: boolean;
  readonly claimed?: boolean;
  readonly confirm?: boolean;
}

interface Recovery {
  readonly dryRun: boolean;
  readonly failed: readonly StaleTask[];
  readonly requeued: readonly StaleTask[];
  /** Those that the database would not have changed. */
  readonly refused: readonly Refused[];
}

interface Refused {
  readonly id: string;
  readonly message: string;
}

const EFFECTS_HINT = "Failed ones may have had part of their effects: everbeat tasks review lists them.";

export function addRecover(cli: Cli, program: Command): void {
  addCommand<RecoverOptions>(cli, program, {
    usage: "recover",
    description: "fail stale running tasks and requeue stale claimed ones, by hand",
    group: "Look and act:",
    examples: [
      "everbeat recover --dry-run",
      "everbeat recover --claimed --after 2m",
      "everbeat recover --running --replica 5b0f3c1e-7a52-4c1b-9d7a-2f0a4f0f6b11",
      "everbeat recover --confirm     the machines on whose account recovery is held are dead indeed",
    ],
    configure(command) {
      addStaleFilters(command);
      command
        .option("--dry-run", "show what would be done, and do nothing")
        .option("--running", "only running tasks, which fail with WORKER_CRASHED")
        .option("--claimed", "only claimed tasks, which are pending again")
        .addOption(
          new Option("--confirm", "confirm a mass death, for which recovery is held").conflicts([
            ...["dryRun", "running", "claimed", "after", "name", "queue", "replica"],
          ]),
        );
    },
    run: (call) => (call.options.confirm ? confirmDeaths(call) : recover(call)),
  });
}

async function confirmDeaths(call: Call<RecoverOptions>): Promise<undefined> {
  const { colours } = call.screen;
  await withEverbeat(call, async ({ recovery }) => {
    const isConfirmed = await recovery.confirmDeaths();
    call.screen.answer({ isConfirmed }, () =>
      isConfirmed
        ? `${colours.green("✓")} Confirmed: the next sweep declares them dead and recovers their tasks.`
        : "Nothing is held, so there is nothing to confirm.",
    );
  });
  return undefined;
}

async function recover(call: Call<RecoverOptions>): Promise<ExitCode> {
  const { options, screen } = call;
  const both = options.running === options.claimed;
  return withEverbeat(call, async (everbeat) => {
    const refused: Refused[] = [];
    const unheard = await readUnheard(everbeat);
    const done: Recovery = {
      dryRun: options.dryRun === true,
      failed: both || options.running ? await recoverThose("running", options, everbeat, refused) : [],
      requeued: both || options.claimed ? await recoverThose("claimed", options, everbeat, refused) : [],
      refused,
    };
    screen.answer(done, () => describeRecovery(done, unheard, screen));
    return refused.length > 0 ? EXIT.failed : EXIT.ok;
  });
}

/** Those that are stale, and of them the ones that were still so when they were recovered. */
async function recoverThose(
  state: OwnedState,
  options: RecoverOptions,
  everbeat: Everbeat,
  refused: Refused[],
): Promise<StaleTask[]> {
  const query = toStaleQuery(state, options);
  const stale = await everbeat.recovery.findStale(query);
  if (options.dryRun || stale.length === 0) return [...stale];
  const those = { ...query, ids: stale.map((task) => task.id) };
  const recovering =
    state === "running" ? everbeat.recovery.failStaleRunning(those) : everbeat.recovery.requeueStaleClaimed(those);
  const { ids } = await recovering.catch((error: unknown) => {
    if (!(error instanceof PartlyRecoveredError)) throw error;
    refused.push(...error.refused.map((one) => ({ id: one.id, message: toErrorRecord(one.error).message })));
    return error;
  });
  return stale.filter((task) => ids.includes(task.id));
}

function describeRecovery(recovery: Recovery, unheard: Unheard, screen: Call["screen"]): string[] {
  const { refused } = recovery;
  if (refused.length === 0) return describeDone(recovery, unheard, screen);
  const { colours, width } = screen;
  const columns: Column<Refused>[] = [
    { title: "ID", value: ({ id }) => id },
    { title: "BECAUSE", label: "", value: ({ message }) => message, atLeast: 40 },
  ];
  return [
    ...describeDone(recovery, unheard, screen),
    "",
    `${colours.red("✗")} The database refused to change these, which stay as they were:`,
    ...table(refused, columns, { colours, width, indent: 2 }),
  ];
}

function describeDone(recovery: Recovery, unheard: Unheard, screen: Call["screen"]): string[] {
  const { dryRun, failed, requeued, refused } = recovery;
  const { colours, width } = screen;
  const tasks = [...failed, ...requeued];
  if (tasks.length === 0) {
    if (refused.length > 0) return ["Nothing was done."];
    const unsure = unsureWords(unheard);
    if (unsure === undefined) {
      const silent = notYetStaleWords(unheard.all, unheard.settings);
      return prose(`No task is stale, so nothing was done.${silent ? ` ${silent}` : ""}`, { width });
    }
    return [
      ...prose(`${unsure} Nothing was done.`, { width, paint: colours.yellow }),
      ...prose(HOW_TO_BE_SURE, { width, paint: colours.dim }),
    ];
  }
  const outcome = (task: StaleTask) => (task.state === "running" ? "failed" : "pending");
  const list = staleTable(tasks, screen, unheard.replicas, [
    {
      title: dryRun ? "WOULD BE" : "NOW",
      value: outcome,
      style: (text, task) => (outcome(task) === "failed" ? colours.red(text) : colours.green(text)),
    },
  ]);
  const [fail, be] = dryRun ? ["would fail", "would be pending again"] : ["failed", "pending again"];
  const lines = [...list, "", `${failed.length} ${fail}, ${requeued.length} ${be}`];
  if (failed.length > 0 && !dryRun) lines.push(...prose(EFFECTS_HINT, { width, paint: colours.yellow }));
  return lines;
}

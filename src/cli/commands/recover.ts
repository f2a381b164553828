/** `everbeat recover`: what workers do by themselves, done by hand. Or the word that a held recovery waits for. */
import { type Command, Option } from "commander";
import type { StaleTask } from "../../index.ts";
import type { ValueOf } from "../../operations/operations.ts";
import { asking } from "../asking.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { EXIT, type ExitCode } from "../exit-codes.ts";
import { notYetStaleWords } from "../silent-owners.ts";
import { addStaleFilters, hasStaleFilters, type StaleFilters, toStaleQuery } from "../stale-filters.ts";
import { staleTable } from "../stale-table.ts";
import { type Column, table } from "../table.ts";
import { typedCommand } from "../typed-command.ts";
import { howToBeSure, howToRecoverUnheard, readUnheard, type Unheard, unsureWords } from "../unheard.ts";
import { prose } from "../wrap.ts";

interface RecoverOptions extends StaleFilters {
  readonly dryRun?: boolean;
  readonly running?: boolean;
  readonly claimed?: boolean;
  /** A source of silence; true: all that are held. */
  readonly confirm?: string | true;
}

type Recovery = ValueOf<"recovery.recover">;
type Refused = Recovery["refused"][number];

export function addRecover(cli: Cli, program: Command): void {
  addCommand<RecoverOptions>(cli, program, {
    usage: "recover",
    description: "fail stale running tasks and requeue stale claimed ones, by hand",
    group: "Look and act:",
    examples: [
      "everbeat recover --dry-run",
      "everbeat recover --claimed --after 2m",
      "everbeat recover --running --replica 5b0f3c1e-7a52-4c1b-9d7a-2f0a4f0f6b11",
      "everbeat recover --confirm     those on whose account recovery is held are dead indeed",
    ],
    configure(command) {
      addStaleFilters(command);
      command
        .option("--dry-run", "show what would be done, and do nothing")
        .option("--running", "only running tasks, which fail with WORKER_CRASHED")
        .option("--claimed", "only claimed tasks, which are pending again")
        .addOption(
          new Option(
            "--confirm [source]",
            "confirm a mass death, for which recovery is held; of one source of silence, or all",
          ).conflicts([...["dryRun", "running", "claimed", "after", "name", "queue", "replica"]]),
        );
    },
    // Also where the name of the source is empty, which is refused.
    run: (call) => (call.options.confirm === undefined ? recover(call) : confirmDeaths(call)),
  });
}

async function confirmDeaths(call: Call<RecoverOptions>): Promise<ExitCode> {
  const { colours } = call.screen;
  const { confirm } = call.options;
  const source = confirm === true ? undefined : confirm;
  return asking(call, async ({ ask }) => {
    const answer = await ask("recovery.confirm", { source });
    const { confirmed, others } = answer;
    call.screen.answer(answer, () =>
      confirmed.length > 0
        ? `${colours.green("✓")} Confirmed (${confirmed.join(", ")}): the next sweep declares them dead and puts right what they had in hand.`
        : others.length > 0
          ? `${colours.red("✗")} Nothing of ${source} is held, and nothing was confirmed. Held: ${others.join(", ")}.`
          : `${source === undefined ? "Nothing" : `Nothing of ${source}`} is held, so there is nothing to confirm.`,
    );
    // Perhaps the name is misspelt. Where nothing is held any more, there is nothing to do.
    return confirmed.length === 0 && others.length > 0 ? EXIT.failed : EXIT.ok;
  });
}

async function recover(call: Call<RecoverOptions>): Promise<ExitCode> {
  const { options, screen } = call;
  return asking(call, async (asked) => {
    const { dryRun } = options;
    const done = await asked.ask("recovery.recover", { ...toStaleQuery(options), state: stateOf(options), dryRun });
    const unheard = await readUnheard(asked, options.replica);
    screen.answer(done, () => describeRecovery(done, unheard, call));
    return done.refused.length > 0 || isUnsure(done) ? EXIT.failed : EXIT.ok;
  });
}

/** Nothing was done, and nobody can say that there was nothing to do. A script must not take that for success. */
function isUnsure({ failed, requeued, unsure }: Recovery): boolean {
  return failed.length === 0 && requeued.length === 0 && unsure !== null;
}

/** Both of them together mean both states, as none does. */
function stateOf({ running, claimed }: RecoverOptions): StaleTask["state"] | undefined {
  if (running === claimed) return undefined;
  return running ? "running" : "claimed";
}

function describeRecovery(recovery: Recovery, unheard: Unheard, call: Call<RecoverOptions>): string[] {
  const { refused } = recovery;
  if (refused.length === 0) return describeDone(recovery, unheard, call);
  const { colours, width } = call.screen;
  const columns: Column<Refused>[] = [
    { title: "ID", value: ({ id }) => id },
    { title: "BECAUSE", label: "", value: ({ message }) => message, atLeast: 40 },
  ];
  return [
    ...describeDone(recovery, unheard, call),
    "",
    `${colours.red("✗")} The database refused to change these, which stay as they were:`,
    ...table(refused, columns, { colours, width, indent: 2 }),
  ];
}

function describeDone(recovery: Recovery, unheard: Unheard, { screen, options }: Call<RecoverOptions>): string[] {
  const { dryRun, failed, requeued, refused } = recovery;
  const { colours, width } = screen;
  const tasks = [...failed, ...requeued];
  if (tasks.length === 0) {
    if (refused.length > 0) return ["Nothing was done."];
    const unsure = unsureWords(recovery.unsure, unheard.now);
    if (unsure === undefined) {
      const silent = notYetStaleWords(unheard.all);
      const isAboutSome = hasStaleFilters(options) || stateOf(options) !== undefined;
      const none = isAboutSome ? "No stale task fits these filters" : "No task is stale";
      return prose(`${none}, so nothing was done.${silent ? ` ${silent}` : ""}`, { width });
    }
    return [
      ...prose(`${unsure} Nothing was done.`, { width, paint: colours.yellow }),
      ...prose(howToBeSure(options), { width, paint: colours.dim }),
      ...prose(howToRecoverUnheard(options), { width, paint: colours.dim }),
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
  const effects = `Failed ones may have had part of their effects: ${typedCommand("tasks review", screen.given)} lists them.`;
  if (failed.length > 0 && !dryRun) lines.push(...prose(effects, { width, paint: colours.yellow }));
  return lines;
}

/** `everbeat status`: the fleet at a glance. */
import type { Command } from "commander";
import type { ReplicaWithHeart } from "../../index.ts";
import type { ValueOf } from "../../operations/operations.ts";
import { TASK_STATES } from "../../task/states.ts";
import { asking } from "../asking.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { addressOf } from "../open-for-command.ts";
import { queueTable } from "../queue-table.ts";
import { isBusy, leftOutWords, mostBusy } from "../queues-of-interest.ts";
import { recoveryLines } from "../recovery-lines.ts";
import { hereFirst, replicaTable } from "../replica-table.ts";
import type { Screen } from "../screen.ts";
import { serviceTable } from "../service-table.ts";
import { inColourOf, marked } from "../states.ts";
import { paragraphs } from "../table.ts";
import { START_WORDS, typedCommand } from "../typed-command.ts";
import { pack } from "../wrap.ts";

interface StatusOptions {
  readonly all?: boolean;
}

/** Where it is beside how it is. */
interface Status extends ValueOf<"status"> {
  readonly database: string;
}

/** So many of them at most; where there are more, only those that have something to do or are set up. */
const QUEUES_SHOWN = 20;

export function addStatus(cli: Cli, program: Command): void {
  addCommand<StatusOptions>(cli, program, {
    usage: "status",
    description: "the fleet at a glance: tasks, queues, replicas, services, recovery",
    group: "Look and act:",
    examples: ["everbeat status", "everbeat status --json | jq .counts"],
    configure: (command) => command.option("--all", "also replicas that have left and hold nothing"),
    run: showStatus,
  });
}

async function showStatus(call: Call<StatusOptions>): Promise<undefined> {
  const { options, screen } = call;
  await asking(call, async ({ ask }) => {
    const { version, ...rest } = await ask("status", { all: options.all });
    const status: Status = { version, database: addressOf(options), ...rest };
    screen.answer(status, () => describeStatus(status, screen, options.all === true));
  });
  return undefined;
}

function describeStatus(status: Status, screen: Screen, withAll: boolean): string[] {
  const { colours, width } = screen;
  const head = [
    { text: `Everbeat ${status.version}`, paint: colours.bold },
    { text: `${status.database}, schema ${status.schema}`, paint: colours.dim },
  ];
  return paragraphs(
    pack(head, { width, between: " " }),
    taskCounts(status, screen),
    queues(status, screen),
    replicas(status, screen, withAll),
    services(status, screen),
    recovery(status, screen),
  );
}

function taskCounts({ counts }: Status, { colours, width }: Screen): string[] {
  const parts = TASK_STATES.map((state) => ({
    text: marked(state, `${counts[state]} ${state}`),
    paint: (text: string) => (counts[state] === 0 ? colours.dim(text) : inColourOf(state, text, colours)),
  }));
  return [colours.bold("Tasks"), ...pack(parts, { width: width - 2, between: "   " }).map((line) => `  ${line}`)];
}

function queues({ queues: rows }: Status, screen: Screen): string[] {
  const { bold, dim } = screen.colours;
  if (rows.length === 0) return [bold("Queues"), "  none yet"];
  const shown = rows.length <= QUEUES_SHOWN ? rows : mostBusy(rows.filter(isBusy), QUEUES_SHOWN);
  const rest = leftOutWords(rows, shown);
  const table = shown.length === 0 ? [] : queueTable(shown, screen, 2);
  return [
    bold("Queues"),
    ...table,
    ...(rest === undefined ? [] : [dim(`  ${rest} (${typedCommand("queues", screen.given)})`)]),
  ];
}

/** Who is here comes first. Of those that died and hold nothing the number is enough. */
function replicas(status: Status, screen: Screen, withAll: boolean): string[] {
  const { dim, bold } = screen.colours;
  const isOver = (row: ReplicaWithHeart) => !withAll && row.status === "dead" && row.claimed + row.running === 0;
  const died = status.replicas.filter(isOver).length;
  const rows = hereFirst(status.replicas.filter((row) => !isOver(row)));
  const look = { now: status.now, settings: status.recovery.settings };
  const body =
    rows.length > 0
      ? replicaTable(rows, look, screen)
      : [`  none is here. Start one: ${typedCommand(START_WORDS, screen.given)}`];
  if (died > 0)
    body.push(
      dim(`  and ${died} that died within the last hour (${typedCommand("replicas", screen.given)} shows them)`),
    );
  const left = status.replicasLeftOut;
  if (left > 0) body.push(dim(`  and ${left} that left before (--all shows them)`));
  return [bold("Replicas"), ...body];
}

function services({ services: rows, now }: Status, screen: Screen): string[] {
  return rows.length === 0 ? [] : [screen.colours.bold("Services"), ...serviceTable(rows, now, screen)];
}

function recovery(status: Status, screen: Screen): string[] {
  return [screen.colours.bold("Recovery"), ...recoveryLines(status.recovery, status.now, screen)];
}

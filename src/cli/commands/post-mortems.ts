/** `everbeat post-mortems`: what processes and attempts probably died of. */

import { type Command, Option } from "commander";
import type { PostMortemRow } from "../../index.ts";
import { POST_MORTEM_KINDS } from "../../recovery/post-mortem-query.ts";
import { CAUSES, type Cause } from "../../recovery/probable-cause.ts";
import { wholeNumber } from "../arguments.ts";
import { asking } from "../asking.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { type Column, table } from "../table.ts";
import { fromNow } from "../times.ts";

interface PostMortemsOptions {
  readonly kind?: PostMortemRow["kind"];
  readonly cause?: Cause;
  readonly limit: number;
}

export function addPostMortems(cli: Cli, program: Command): void {
  addCommand<PostMortemsOptions>(cli, program, {
    usage: "post-mortems",
    description: "what workers, runners and attempts probably died of",
    group: "Look and act:",
    examples: [
      "everbeat post-mortems",
      "everbeat post-mortems --kind replica --cause out-of-memory",
      "everbeat post-mortems --json | jq '.postMortems[].sentence'",
    ],
    configure: (command) =>
      command
        .addOption(new Option("--kind <kind>", "of these only").choices(POST_MORTEM_KINDS))
        .addOption(new Option("--cause <cause>", "of this cause only").choices(CAUSES))
        .option("--limit <number>", "how many at most, 1 to 1000", wholeNumber({ min: 1, max: 1_000 }), 50),
    run: showPostMortems,
  });
}

async function showPostMortems(call: Call<PostMortemsOptions>): Promise<undefined> {
  const { options, screen } = call;
  const { colours, width } = screen;
  await asking(call, async ({ ask }) => {
    const { kind, cause, limit } = options;
    const answer = await ask("post-mortems.list", { kind, cause, limit });
    const { now, postMortems } = answer;
    const columns: Column<ShownPostMortem>[] = [
      { title: "#", value: (row) => row.id, align: "right" },
      { title: "WHEN", value: (row) => fromNow(row.happenedAt, now) },
      { title: "OF", value: (row) => (row.name === null ? row.kind : `${row.kind} ${row.name}`), atLeast: 20 },
      { title: "ID", value: (row) => subjectOf(row) },
      {
        ...{ title: "BATCH", label: "", isOptional: true },
        value: ({ others }) => (others === 0 ? "" : `and ${others} more of its batch`),
      },
      { title: "CAUSE", label: "", value: (row) => row.cause, style: (text) => colours.bold(text) },
      { title: "HOST", value: (row) => row.hostname ?? "", isOptional: true },
      {
        ...{ title: "IN A SENTENCE", label: "", value: (row) => row.sentence, atLeast: 30 },
        style: (text) => colours.dim(text),
      },
    ];
    screen.answer(answer, () =>
      postMortems.length === 0
        ? kind === undefined && cause === undefined
          ? "Nothing has died, as far as the record goes."
          : "No post-mortem fits these filters."
        : table(oncePerRunner(postMortems), columns, { colours, width }),
    );
  });
  return undefined;
}

/** With how many more of the same runner there are: one for each task that it was running, which say the same. */
type ShownPostMortem = PostMortemRow & { readonly others: number };

function oncePerRunner(rows: readonly PostMortemRow[]): ShownPostMortem[] {
  const ofRunner = (id: string | null) => rows.filter(({ kind, runnerId }) => kind === "runner" && runnerId === id);
  return rows.flatMap((row) => {
    if (row.kind !== "runner") return [{ ...row, others: 0 }];
    const [first, ...others] = ofRunner(row.runnerId);
    return first === row ? [{ ...row, others: others.length }] : [];
  });
}

export function subjectOf({ kind, replicaId, runnerId, taskId }: PostMortemRow): string {
  return (kind === "attempt" ? taskId : kind === "runner" ? runnerId : replicaId) ?? "";
}

/** `everbeat post-mortem`: one death, with all that is known about it. */
import type { Command } from "commander";
import type { PostMortemRow } from "../../index.ts";
import { asking } from "../asking.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { EXIT, type ExitCode } from "../exit-codes.ts";
import type { Screen } from "../screen.ts";
import { paragraphs } from "../table.ts";
import { momentAndDistance } from "../times.ts";
import { prose } from "../wrap.ts";
import { subjectOf } from "./post-mortems.ts";

export function addPostMortem(cli: Cli, program: Command): void {
  addCommand(cli, program, {
    usage: "post-mortem <id>",
    description: "what one replica, runner or task probably died of, with the evidence",
    group: "Look and act:",
    examples: [
      "everbeat post-mortem 42",
      "everbeat post-mortem 0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11     of a task or a replica: all there are",
    ],
    run: showPostMortem,
  });
}

async function showPostMortem(call: Call): Promise<ExitCode> {
  const { screen, words } = call;
  const [id = ""] = words;
  return asking(call, async ({ ask }) => {
    const answer = await ask("post-mortems.show", { of: id });
    const { now, postMortems } = answer;
    screen.answer(answer, () =>
      postMortems.length === 0
        ? `There is no post-mortem of ${id}: it has not died, or that was too long ago.`
        : paragraphs(...postMortems.map((row) => describePostMortem(row, now, screen))),
    );
    return postMortems.length === 0 ? EXIT.failed : EXIT.ok;
  });
}

export function describePostMortem(row: PostMortemRow, now: Date, { colours, width }: Screen): string[] {
  const what = row.name === null ? row.kind : `${row.kind} of ${row.name}`;
  const where = row.hostname === null ? "" : ` on ${row.hostname}`;
  const title = `${what} ${subjectOf(row)}${where}, ${momentAndDistance(row.happenedAt, now)}`;
  return [
    ...prose(title, { width, mark: `${row.cause}  `, paintMark: colours.bold }),
    "",
    ...prose(row.sentence, { width }),
    // A line that begins with blanks belongs to the one before it, as those of a stack do.
    ...row.evidence.flatMap((line) =>
      prose(line, { width, mark: line.startsWith(" ") ? "  " : "  · ", paint: colours.dim }),
    ),
  ];
}

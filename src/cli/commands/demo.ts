/** `everbeat demo`: a short story in which workers are killed and stopped, and the work survives. */
import type { Command } from "commander";
import { formatDuration } from "../../config/duration.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { type DemoSummary, playDemo } from "../demo/play.ts";
import { EXIT, type ExitCode } from "../exit-codes.ts";
import type { Screen } from "../screen.ts";
import { listenForStop } from "../stop-signals.ts";

export function addDemo(cli: Cli, program: Command): void {
  addCommand(cli, program, {
    usage: "demo",
    description: "a story in your terminal: workers are killed and stopped, and the work survives",
    group: "Try it:",
    examples: ["everbeat demo", "everbeat demo --json"],
    run: demo,
  });
}

async function demo({ screen }: Call): Promise<ExitCode> {
  screen.outliveReaders();
  const stop = listenForStop();
  const stopping = new AbortController();
  void stop.first.then(() => stopping.abort());
  try {
    const summary = await playDemo(screen, stopping.signal);
    screen.answer(summary, () => describe(summary, screen));
    return summary.ok ? EXIT.ok : EXIT.failed;
  } finally {
    stop.close();
  }
}

function describe(summary: DemoSummary, { colours }: Screen): string[] {
  const { ok, accepted, completed, quarantined, lost, endedTwice, lateRefused } = summary;
  const headline = ok
    ? colours.green(
        colours.bold(
          `✓ All is well: ${accepted} tasks accepted, ${completed} completed, each once and only once, ${quarantined} in quarantine.`,
        ),
      )
    : colours.red(
        colours.bold(
          `✗ Not well: ${accepted} accepted, ${completed} completed, ${lost} lost, ${endedTwice} ended twice.`,
        ),
      );
  const facts = [
    `${summary.workersStarted} workers, ${summary.workersKilled} killed, ${summary.workersFrozen} frozen`,
    ...(summary.crashKnownMs === undefined ? [] : [`a crash known after ${formatDuration(summary.crashKnownMs)}`]),
    `${summary.runnersLost} runner out of memory`,
    `${summary.loopsBlocked} loop blocked`,
    `${summary.tasksTakenBack} tasks recovered`,
    `${lateRefused} late ${lateRefused === 1 ? "outcome" : "outcomes"} refused`,
    formatDuration(summary.durationMs),
  ];
  return ["", headline, `  ${colours.dim(facts.join(" · "))}`, "", `  Your turn: ${colours.cyan("npx everbeat dev")}`];
}

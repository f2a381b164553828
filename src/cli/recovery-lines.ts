/** How recovery is doing, a line for each thing worth knowing. */
import { formatDuration } from "../config/duration.ts";
import type { ValueOf } from "../operations/operations.ts";
import { holdWords } from "../recovery/hold-words.ts";
import { flappingWords } from "../recovery/reliability.ts";
import { isSweeping } from "../recovery/sweeping.ts";
import { adviceText } from "./advice-text.ts";
import type { Screen } from "./screen.ts";
import { age, fromNow } from "./times.ts";
import { typedCommand } from "./typed-command.ts";
import { prose } from "./wrap.ts";

type RecoveryStatus = ValueOf<"status">["recovery"];

export function recoveryLines(recovery: RecoveryStatus, now: Date, screen: Screen): string[] {
  const { colours, width, given } = screen;
  const by = (words: string) => `(${typedCommand(words, given)})`;
  const { listening, alerts, needingReview, quarantined, flapping, settings } = recovery;
  const warnings: string[] = [];
  if (!settings.recoversRunning)
    warnings.push("running tasks of dead workers are left alone (autoFailStaleRunning: false)");
  if (!settings.requeuesClaimed)
    warnings.push("claimed tasks of dead workers are left alone (autoRequeueStaleClaimed: false)");
  for (const hold of listening?.holds ?? []) {
    const words = holdWords(hold, ` for ${age(hold.since, now)}`);
    warnings.push(hold.isConfirmed ? words : `${words} ${by(`recover --confirm ${hold.source}`)}`);
  }
  if (needingReview > 0)
    warnings.push(`${needingReview} ${needingReview === 1 ? "task needs" : "tasks need"} review ${by("tasks review")}`);
  if (quarantined > 0)
    warnings.push(
      `${quarantined} ${quarantined === 1 ? "task is" : "tasks are"} in quarantine ${by("tasks quarantined")}`,
    );
  for (const machine of flapping)
    warnings.push(`${machine.hostname} flaps: ${flappingWords(machine)} ${by("post-mortems")}`);
  const warn = (text: string) => prose(text, { width, mark: "  ! ", paint: colours.yellow });
  const alertLines = alerts.flatMap(({ raisedAt, message, advice }) => [
    ...warn(`alert, ${fromNow(raisedAt, now)}: ${message}`),
    ...advice.flatMap((each) => adviceText(each, screen, "    ")),
  ]);
  const sweep = sweepWords(recovery);
  const sweeps = isSweeping(listening, settings.checkMs) ? prose(sweep, { width, mark: "  " }) : warn(sweep);
  return [...sweeps, ...warnings.flatMap(warn), ...alertLines];
}

function sweepWords({ listening, settings }: RecoveryStatus): string {
  if (!listening) return "nobody has swept yet: every worker does, from its start on";
  const ago = formatDuration(Math.max(0, listening.sweptAgoMs));
  const took = listening.sweepMs === null ? "" : `, in ${formatDuration(listening.sweepMs)}`;
  const every = `every ${formatDuration(settings.checkMs)}`;
  if (isSweeping(listening, settings.checkMs)) return `swept ${ago} ago${took} (${every}, profile ${settings.profile})`;
  return `nobody has listened for ${ago}, since ${listening.sweptAt.toISOString()} (it should be done ${every}): no worker runs, or none reaches the database. Start one, or open Everbeat somewhere with runsServices: true`;
}

/** How recovery is doing, a line for each thing worth knowing. */
import { formatDuration } from "../config/duration.ts";
import { flappingWords } from "../recovery/reliability.ts";
import { isSweeping } from "../recovery/sweeping.ts";
import type { RecoveryStatus } from "./commands/status.ts";
import type { Screen } from "./screen.ts";
import { age, fromNow } from "./times.ts";

export function recoveryLines(recovery: RecoveryStatus, now: Date, { colours }: Screen): string[] {
  const { listening, alerts, needingReview, quarantined, flapping, settings } = recovery;
  const warn = (text: string) => colours.yellow(`  ! ${text}`);
  const lines = [isSweeping(listening, settings.checkMs) ? `  ${sweepWords(recovery)}` : warn(sweepWords(recovery))];
  if (!settings.recoversRunning)
    lines.push(warn("running tasks of dead workers are left alone (autoFailStaleRunning: false)"));
  if (!settings.requeuesClaimed)
    lines.push(warn("claimed tasks of dead workers are left alone (autoRequeueStaleClaimed: false)"));
  if (listening?.heldSince)
    lines.push(
      warn(
        `held for ${age(listening.heldSince, now)}: too many machines fell silent at once (everbeat recover --confirm)`,
      ),
    );
  for (const alert of alerts) lines.push(warn(`alert, ${fromNow(alert.raisedAt, now)}: ${alert.message}`));
  if (needingReview > 0)
    lines.push(
      warn(`${needingReview} ${needingReview === 1 ? "task needs" : "tasks need"} review (everbeat tasks review)`),
    );
  if (quarantined > 0)
    lines.push(
      warn(`${quarantined} ${quarantined === 1 ? "task is" : "tasks are"} in quarantine (everbeat tasks quarantined)`),
    );
  for (const machine of flapping)
    lines.push(warn(`${machine.hostname} flaps: ${flappingWords(machine)} (everbeat post-mortems)`));
  return lines;
}

function sweepWords({ listening, settings }: RecoveryStatus): string {
  if (!listening) return "nobody has swept yet: every worker does, from its start on";
  const ago = formatDuration(Math.max(0, listening.sweptAgoMs));
  const took = listening.sweepMs === null ? "" : `, in ${formatDuration(listening.sweepMs)}`;
  const every = `every ${formatDuration(settings.checkMs)}`;
  if (isSweeping(listening, settings.checkMs)) return `swept ${ago} ago${took} (${every}, profile ${settings.profile})`;
  return `nobody has listened for ${ago}, since ${listening.sweptAt.toISOString()} (it should be done ${every}): no worker runs, or none reaches the database. Start one, or open Everbeat somewhere with listens: true`;
}

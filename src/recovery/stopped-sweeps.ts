/** Sweeps that have stopped, as an alert: raised by those who are alive and cannot sweep. The next sweep that comes to its end resolves it (ended-alerts.ts). */
import { formatDuration } from "../config/duration.ts";
import type { Database } from "../database/database.ts";
import type { Events } from "../events.ts";
import { raiseAlert, resolveAlert } from "../sql/alerts.ts";
import { readLastSweep } from "../sql/recovery.ts";
import { isSweeping } from "./sweeping.ts";

const ALERT = { kind: "sweeps-stopped", subject: "fleet" } as const;

export async function alertIfStopped(parts: { database: Database; events: Events; checkMs: number }): Promise<void> {
  const { database, events, checkMs } = parts;
  const last = await readLastSweep(database);
  if (!last || isSweeping(last, checkMs)) return;
  const { sweptAgoMs, sweptBy } = last;
  const message = `Nobody has listened for silence for ${formatDuration(Math.round(sweptAgoMs))}; it should be done every ${formatDuration(checkMs)}. Something holds up the sweeps.`;
  if (!(await raiseAlert(database, { ...ALERT, message, details: { sweptAgoMs, sweptBy } }))) return;
  events.emit("sweeps.stopped", { sweptAgoMs });
  // Whoever has swept since it was read when the last sweep was had nothing to end yet.
  const since = await readLastSweep(database);
  if (since && isSweeping(since, checkMs)) await resolveAlert(database, ALERT.kind, ALERT.subject);
}

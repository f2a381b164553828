/** Settings of the role or the database that are not meant for work like Everbeat's, and what that means. */
import { formatDuration } from "../config/duration.ts";
import type { Database } from "../database/database.ts";
import { endClient } from "../database/end-client.ts";
import type { Session } from "../database/session.ts";
import { ENOUGH_MS, LOW_MS, limitsBelow, misfitsOf } from "../database/session-settings.ts";
import { type Finding, good, warning } from "./finding.ts";

export async function checkSettings(database: Database): Promise<Finding> {
  const { client, session } = await database.ownSession();
  await endClient(client);
  return judgeSettings(session);
}

export function judgeSettings({ settings, isDirect }: Pick<Session, "settings" | "isDirect">): Finding {
  const strange = [
    ...misfitsOf(settings).map(({ name, found }) => `${name} is ${found}`),
    ...limitsBelow(settings.limitsMs, isDirect ? ENOUGH_MS : LOW_MS).map(
      ([name, ms]) => `${name} is ${formatDuration(ms)}`,
    ),
  ];
  if (strange.length === 0) return good("settings", "read committed, and no time limit that is too short");
  const how = isDirect
    ? "Everbeat changes that for its own connections"
    : "behind a pooler, each statement of Everbeat's brings its own, which takes three round trips instead of one";
  const advice =
    "Nothing has to be done. On a pool that you pass to Everbeat, and behind a pooler, it would be quicker with a role that has other settings: alter role … set …";
  return warning("settings", `${strange.join(", ")}; ${how}`, advice);
}

/** Moments as the server writes them, in any time zone. */

import { TimeNotReadableError } from "./errors.ts";

/** Others would be read too, by JavaScript, with days and months the wrong way round. */
const IS_ISO = /^\d{4,6}-|infinity$/;
/** How far a zone is from UTC, to the second: that is how it was before there were time zones. */
const OFFSET_TO_THE_SECOND = /([+-])(\d\d):(\d\d):(\d\d)$/;

/** Of the form that DateStyle ISO asks for, which our sessions have (see session-settings.ts). */
export function readTimestamp(text: string): Date {
  if (!IS_ISO.test(text)) throw new TimeNotReadableError(text);
  const [offset, sign, hours, minutes, seconds] = OFFSET_TO_THE_SECOND.exec(text) ?? [];
  if (offset === undefined) return new Date(text);
  const offsetMs = (Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds)) * 1_000;
  const localMs = new Date(`${text.slice(0, -offset.length)}Z`).getTime();
  return new Date(sign === "+" ? localMs - offsetMs : localMs + offsetMs);
}

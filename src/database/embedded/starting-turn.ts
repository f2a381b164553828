// Lets one process at a time do the slow work of starting, so that ten that start at once do not run initdb ten times.
//
// This is a courtesy, not a lock. A holder that stands still is passed over, so two may be at work at once; what they
// do is safe even then: a database appears by one atomic step, and PostgreSQL itself admits one server to a folder.
import { randomUUID } from "node:crypto";
import { type FileHandle, lstat, open } from "node:fs/promises";
import { dirname } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { EmbeddedStartHeldError } from "./embedded-errors.ts";
import { openToRead } from "./found-file.ts";
import { handsFor } from "./hands.ts";
import { EmbeddedProgramStuckError } from "./program-errors.ts";

const BEAT_INTERVAL_MS = 250;
const ABANDONED_AFTER_MS = 2_500;
const LOOK_INTERVAL_MS = 40;

/** For one who never ends: a process that hangs, or a user who goes on touching the file. */
const PATIENCE_MS = 60_000;
/** Longer than all that is done in a turn may take. */
const INSISTENCE_MS = 300_000;

export type TurnOutcome = "done" | "someone-else-did" | "held-by-another";

/** Does `work` if it is our turn; otherwise waits until the one whose turn it is has finished or stands still, or for too long. */
export async function takeTurn(
  turnFile: string,
  work: () => Promise<void>,
  patienceMs = PATIENCE_MS,
): Promise<TurnOutcome> {
  const turn = await claim(turnFile);
  if (turn === undefined) return await waitForOther(turnFile, patienceMs);
  await during(turn, turnFile, work);
  return "done";
}

/** Waits until others have had their turns; where there can be none, in a folder that was deleted or closed, does without. */
export async function insistOnTurn(
  turnFile: string,
  work: () => Promise<void>,
  patienceMs = INSISTENCE_MS,
): Promise<void> {
  const beganAt = performance.now();
  for (;;) {
    const turn = await claim(turnFile).catch((error) => {
      if (error instanceof EmbeddedProgramStuckError) throw error;
      return "impossible" as const;
    });
    if (turn === "impossible") return await work();
    if (turn !== undefined) return await during(turn, turnFile, work);
    const waitedMs = performance.now() - beganAt;
    if (waitedMs >= patienceMs) throw new EmbeddedStartHeldError(turnFile, waitedMs);
    await waitForOther(turnFile, patienceMs - waitedMs);
  }
}

async function during(turn: FileHandle, turnFile: string, work: () => Promise<void>): Promise<void> {
  const beat = setInterval(() => void turn.utimes(new Date(), new Date()).catch(() => {}), BEAT_INTERVAL_MS);
  try {
    await work();
  } finally {
    clearInterval(beat);
    await release(turnFile, turn);
  }
}

async function claim(turnFile: string): Promise<FileHandle | undefined> {
  const hands = await handsFor(dirname(turnFile));
  try {
    if (hands.account === undefined) return await open(turnFile, "wx", 0o600);
    await hands.create(turnFile);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return undefined;
    throw error;
  }
  return await openToRead(turnFile).catch((error: NodeJS.ErrnoException) => {
    // We were passed over before we could open it.
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
}

/** Watches for change instead of comparing times: no clock has to be right. */
async function waitForOther(turnFile: string, patienceMs: number): Promise<"someone-else-did" | "held-by-another"> {
  const beganAt = performance.now();
  let seen = await signOfLife(turnFile);
  let seenAt = beganAt;
  while (seen !== undefined) {
    await pause(LOOK_INTERVAL_MS);
    const now = await signOfLife(turnFile);
    if (now !== seen) {
      // Another file in its place is another holder: back to the caller, who looks at the server first.
      if (now?.split("@")[0] !== seen.split("@")[0]) return "someone-else-did";
      seen = now;
      seenAt = performance.now();
    } else if (performance.now() - seenAt > ABANDONED_AFTER_MS) {
      await passOver(turnFile);
      return "someone-else-did";
    }
    if (performance.now() - beganAt > patienceMs) return "held-by-another";
  }
  return "someone-else-did";
}

async function signOfLife(turnFile: string): Promise<string | undefined> {
  const seen = await lstat(turnFile, { bigint: true }).catch(() => undefined);
  return seen && `${seen.ino}@${seen.mtimeNs}`;
}

/** By a rename, so that of several that lost patience with the same holder one succeeds. */
async function passOver(turnFile: string): Promise<void> {
  const aside = `${turnFile}-${randomUUID()}`;
  try {
    const hands = await handsFor(dirname(turnFile));
    await hands.rename(turnFile, aside);
    await hands.remove(aside);
  } catch {} // Another did, or the folder is gone.
}

/** Removes the file only while it is ours: we may have been passed over. */
async function release(turnFile: string, turn: FileHandle): Promise<void> {
  const ours = await turn.stat({ bigint: true });
  await turn.close();
  const there = await lstat(turnFile, { bigint: true }).catch(() => undefined);
  if (there?.ino !== ours.ino) return;
  const hands = await handsFor(dirname(turnFile)).catch(() => undefined);
  // One that stays because the folder was deleted or closed meanwhile is passed over by the next.
  await hands?.remove(turnFile).catch(() => {});
}

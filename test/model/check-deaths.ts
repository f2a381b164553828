/**
 * Nobody is declared dead who was heard in time, nobody who is gone stays undeclared beyond the bound, and what the dead had
 * is recovered in the same sweep. Pure: reckoned anew from what was done, not from what the database noted of it.
 *
 * What happened did so within a window, so each rule goes by that end of it that is in favour of what is checked.
 */
import { type Life, Lives } from "./lives.ts";
import type { Happening, History, Record, Window } from "./record.ts";

type Sweep = Window & Extract<Happening, { kind: "swept" }>;

interface Held {
  readonly heldSince: number | undefined;
  readonly keptUntil: number | undefined;
  readonly isConfirmed: boolean;
  readonly holds: Set<number>;
}

export function checkDeaths(history: History, record: Record): string[] {
  const lives = new Lives();
  const problems: string[] = [];
  let heldSince: number | undefined;
  let keptUntil: number | undefined;
  let isConfirmed = false;
  let hasJustSwept = false;
  let holds = new Set<number>();
  let remembered: Held | undefined;
  for (const entry of history) {
    if (entry.kind === "remembered") remembered = { heldSince, keptUntil, isConfirmed, holds: new Set(holds) };
    if (entry.kind === "forgot" && remembered) {
      ({ heldSince, keptUntil, isConfirmed } = remembered);
      holds = new Set(remembered.holds);
    }
    if (entry.kind === "swept") {
      const isAnew = beginsAnew(entry, heldSince, keptUntil);
      problems.push(...wrongHold(entry, isAnew ? undefined : heldSince));
      // Its alert goes on, where it was not seen to be over.
      if (isAnew && heldSince !== undefined) holds.delete(heldSince);
      ({ heldSince, keptUntil } = entry);
      isConfirmed &&= heldSince !== undefined && !isAnew;
      if (heldSince !== undefined) holds.add(heldSince);
      problems.push(...sweepProblems(lives, entry, isConfirmed));
    } else {
      if (entry.kind === "confirmed") isConfirmed = heldSince !== undefined && !(entry.from > (keptUntil ?? Infinity));
      problems.push(...lives.wrongSigns(entry));
      if (entry.kind === "looked" && hasJustSwept) problems.push(...leftBehind(lives, entry));
      lives.follow(entry);
    }
    if (entry.kind === "swept" || entry.kind !== "looked") hasJustSwept = entry.kind === "swept" && entry.isListening;
  }
  const alerts = record.alerts.filter(({ kind }) => kind === "mass-death").length;
  if (alerts !== holds.size) problems.push(`recovery was held ${holds.size} times, with ${alerts} alerts`);
  return [...new Set([...problems, ...wrongRows(lives, record)])];
}

function sweepProblems(lives: Lives, sweep: Sweep, isConfirmed: boolean): string[] {
  if (!sweep.isListening) {
    return sweep.deaths.length + sweep.recovered.length > 0 ? [`${sweep.by} acted without having listened`] : [];
  }
  lives.listen(sweep);
  const problems = [
    ...sweep.deaths.flatMap(({ replica, because }) => early(lives, sweep, replica, because)),
    ...(isConfirmed ? [] : massDeath(lives, sweep)),
  ];
  const online = lives.online();
  for (const { replica } of sweep.deaths) lives.die(replica);
  return [...problems, ...overdue(lives, sweep, { before: online, isConfirmed }), ...wrongRecoveries(lives, sweep)];
}

/** No death while it was heard in time, by evidence of another epoch, or before its heart's promise. */
function early(lives: Lives, sweep: Sweep, replica: string, because: string): string[] {
  const life = lives.of(replica);
  if (life?.status !== "online") return [`${replica} was declared dead and was not alive`];
  const { sessionGraceMs, runningDeadAfterMs } = sweep.settings;
  if (because === "silent") {
    const limit = Math.max(runningDeadAfterMs, life.promiseMs);
    return tooSoon(replica, "silent", sweep.to - lives.heardSince(life).from, limit);
  }
  if (sessionGraceMs === undefined) return [`${replica} was declared dead by its session, which is not to count`];
  if (life.sessionEpoch !== lives.epoch) return [`${replica} was declared dead by a session of another epoch`];
  if (life.sessions > 0) return [`${replica} was declared dead by its session, which it had`];
  const limit = Math.max(sessionGraceMs, life.sessionPromiseMs);
  return tooSoon(replica, "without its session", sweep.to - (life.sessionGoneAt?.from ?? 0), limit);
}

function tooSoon(replica: string, how: string, ms: number, limitMs: number): string[] {
  if (ms > limitMs) return [];
  return [
    `${replica} was declared dead when it was ${how} for ${Math.round(ms)} ms, which is allowed for ${limitMs} ms`,
  ];
}

/** So many machines at once only after recovery was held for long enough. */
function massDeath(lives: Lives, sweep: Sweep): string[] {
  const { share, atLeast, holdMs } = sweep.settings.massDeath;
  const dying = new Set(sweep.deaths.map(({ replica }) => replica));
  const online = lives.online();
  const machines = new Set(online.map(({ machine }) => machine));
  const living = new Set(online.filter(({ id }) => !dying.has(id)).map(({ machine }) => machine));
  const dead = machines.size - living.size;
  if (dead < atLeast || dead <= share * machines.size) return [];
  if (sweep.heldSince !== undefined && sweep.to - sweep.heldSince > holdMs) return [];
  return [
    `${dead} of ${machines.size} machines were declared dead at once, and recovery was not held for ${holdMs} ms`,
  ];
}

/** Whoever is beyond every bound is dead after a sweep, unless that is rightly held. */
function overdue(
  lives: Lives,
  sweep: Sweep,
  { before, isConfirmed }: { before: Life[]; isConfirmed: boolean },
): string[] {
  const late = lives.online().filter((life) => mustBeDead(lives, sweep, life));
  if (late.length === 0) return [];
  const { share, atLeast, holdMs } = sweep.settings.massDeath;
  const machines = new Set(before.map(({ machine }) => machine));
  const well = new Set(before.filter((life) => isWell(lives, sweep, life)).map(({ machine }) => machine));
  const ill = machines.size - well.size;
  const isHeld = sweep.heldSince !== undefined && sweep.from - sweep.heldSince <= holdMs && !isConfirmed;
  if (isHeld && ill >= atLeast && ill > share * machines.size) return [];
  return late.map(({ id }) => `${id} should have been declared dead by ${sweep.by}`);
}

function mustBeDead(lives: Lives, sweep: Sweep, life: Life): boolean {
  const { sessionGraceMs, runningDeadAfterMs } = sweep.settings;
  const silentForMs = sweep.from - lives.heardSince(life).to;
  if (silentForMs > Math.max(runningDeadAfterMs, life.promiseMs + runningDeadAfterMs / 10)) return true;
  if (sessionGraceMs === undefined || life.seenGoneAt === undefined) return false;
  const limit = Math.max(sessionGraceMs, life.sessionPromiseMs + sessionGraceMs / 5);
  return sweep.from - life.seenGoneAt.to > limit;
}

function isWell(lives: Lives, sweep: Sweep, life: Life): boolean {
  const mayBeGone = life.sessions === 0 && life.sessionEpoch === lives.epoch;
  return !mayBeGone && sweep.to - lives.heardSince(life).from < sweep.settings.staleAfterMs;
}

/** Only the dead and the departed are recovered; of one who is only silent, what it has not started. */
function wrongRecoveries(lives: Lives, sweep: Sweep): string[] {
  return sweep.recovered.flatMap(({ claim, replica, action }) => {
    const life = lives.of(replica);
    if (life?.status !== "online") return [];
    const silentForMs = sweep.to - lives.heardSince(life).from;
    if (action === "released" && silentForMs > Math.max(sweep.settings.claimedDeadAfterMs, life.promiseMs)) return [];
    return [`claim ${claim} was recovered (${action}) from ${replica}, which was alive, ${silentForMs} ms silent`];
  });
}

function leftBehind(lives: Lives, { places }: Extract<Happening, { kind: "looked" }>): string[] {
  return places
    .filter(({ table, replica }) => table === "running" && lives.of(replica ?? "")?.status !== "online")
    .map(({ task, replica }) => `task ${task} stayed with ${replica}, which is not alive, after a sweep`);
}

/** One that nobody has renewed in time was left behind. */
function beginsAnew(sweep: Sweep, before: number | undefined, keptUntil: number | undefined): boolean {
  if (before === undefined || sweep.heldSince === undefined || keptUntil === undefined) return false;
  return sweep.to > keptUntil && sweep.heldSince > before + 2;
}

/** A hold begins in the sweep that tells of it, and its start does not move. */
function wrongHold(sweep: Sweep, before: number | undefined): string[] {
  const { heldSince } = sweep;
  if (heldSince === undefined || heldSince === before) return [];
  // To the millisecond: it went through a stamp.
  if (before !== undefined && Math.abs(heldSince - before) < 2) return [];
  if (before === undefined && heldSince >= sweep.from - 2 && heldSince <= sweep.to + 2) return [];
  return [
    `recovery is held since ${heldSince} after a sweep from ${sweep.from} to ${sweep.to}; before, since ${before}`,
  ];
}

function wrongRows(lives: Lives, { replicas }: Record): string[] {
  return replicas.flatMap(({ id, status, isHeartDead }) => {
    const expected = lives.of(id)?.status;
    if (status !== expected) return [`${id} is ${status} on record, and should be ${expected}`];
    return (status === "dead") === isHeartDead ? [] : [`${id} is ${status}, and its heart is not marked so`];
  });
}

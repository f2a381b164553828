/** Who was heard when, by what was done: the checker's own reckoning of silence, sessions, epochs and of being listened to. */
import type { Happening, Window } from "./record.ts";

export interface Life {
  readonly id: string;
  readonly machine: string;
  readonly promiseMs: number;
  readonly sessionPromiseMs: number;
  readonly joinedAt: Window;
  status: "online" | "offline" | "dead";
  /** The last sign of the epoch it was given in. */
  sign: Window & { readonly epoch: number };
  /** How many sessions hold its lock; since when none does; since when a sweep has seen that. */
  sessions: number;
  sessionEpoch: number | undefined;
  sessionGoneAt: Window | undefined;
  seenGoneAt: Window | undefined;
}

type Sweep = Window & Extract<Happening, { kind: "swept" }>;

/** What the server knows of them. */
interface Known {
  readonly lives: Map<string, Life>;
  sweptAt: (Window & { epoch: number }) | undefined;
  hearingSince: Window;
}

export class Lives {
  #epoch = 0;
  #known: Known = {
    lives: new Map(),
    sweptAt: undefined,
    hearingSince: { from: Number.NEGATIVE_INFINITY, to: Number.NEGATIVE_INFINITY },
  };
  #remembered: Known = this.#known;

  get epoch(): number {
    return this.#epoch;
  }

  of(id: string): Life | undefined {
    return this.#known.lives.get(id);
  }

  online(): Life[] {
    return [...this.#known.lives.values()].filter(({ status }) => status === "online");
  }

  die(id: string): void {
    const life = this.#known.lives.get(id);
    if (life) life.status = "dead";
  }

  /** From when on its silence counts: not before its last sign, and not while nobody could be heard. */
  heardSince(life: Life): Window {
    const sign = life.sign.epoch === this.#epoch ? life.sign : life.joinedAt;
    return later(later(sign, life.joinedAt), this.#known.hearingSince);
  }

  follow(entry: Window & Happening): void {
    const { from, to } = entry;
    if (entry.kind === "remembered") this.#remembered = structuredClone(this.#known);
    if (entry.kind === "forgot") this.#known = structuredClone(this.#remembered);
    if (entry.kind === "epoch") this.#onEpoch({ from, to });
    if (entry.kind === "joined") {
      const { replica: id, machine, promiseMs, sessionPromiseMs } = entry;
      const sign = { from, to, epoch: this.#epoch };
      const session = { sessions: 0, sessionEpoch: undefined, sessionGoneAt: undefined, seenGoneAt: undefined };
      const joined = { id, machine, promiseMs, sessionPromiseMs, joinedAt: { from, to } };
      this.#known.lives.set(id, { ...joined, ...session, sign, status: "online" });
    }
    const life = "replica" in entry ? this.#known.lives.get(entry.replica) : undefined;
    if (!life) return;
    if (entry.kind === "left" && life.status === "online") life.status = "offline";
    if (entry.kind === "session") {
      life.sessions += entry.isHeld ? 1 : -1;
      life.sessionGoneAt = life.sessions === 0 ? { from, to } : undefined;
      life.seenGoneAt = undefined;
    }
    if (entry.kind === "beat" && entry.isHeard) {
      life.sign = { from, to, epoch: this.#epoch };
      if (entry.hasSession !== undefined) life.sessionEpoch = entry.hasSession ? this.#epoch : undefined;
      life.seenGoneAt = undefined;
    }
  }

  /** Those who are not alive are not heard, and get nothing. */
  wrongSigns(entry: Happening): string[] {
    if (entry.kind !== "beat" && entry.kind !== "claimed") return [];
    const status = this.#known.lives.get(entry.replica)?.status ?? "unknown";
    if (entry.kind === "beat") {
      if (entry.isHeard === (status === "online")) return [];
      return [`a beat of ${entry.replica}, which is ${status}, was ${entry.isHeard ? "heard" : "refused"}`];
    }
    return entry.claims.length > 0 && status !== "online" ? [`${entry.replica}, which is ${status}, got a claim`] : [];
  }

  /** Since when hearts can be heard: anew with another epoch, and after a gap in which nobody listened or nobody spoke. */
  listen(sweep: Sweep): void {
    const { checkMs, runnerIntervalMs, claimerIntervalMs } = sweep.settings;
    const gapMs = 2.5 * Math.max(checkMs, runnerIntervalMs, claimerIntervalMs);
    const signs = [...this.#known.lives.values()].map(({ sign }) => sign).filter(({ epoch }) => epoch === this.#epoch);
    const newest = signs.reduce<Window | undefined>((one, other) => (one ? later(one, other) : other), undefined);
    const now = { from: sweep.from, to: sweep.to };
    const isGap = (since: Window | undefined, isSure: boolean) =>
      since === undefined || (isSure ? now.from - since.to : now.to - since.from) > gapMs;
    const isOther = this.#known.sweptAt?.epoch !== this.#epoch;
    if (isOther || isGap(this.#known.sweptAt, true) || isGap(newest, true)) this.#known.hearingSince = now;
    else if (isGap(this.#known.sweptAt, false) || isGap(newest, false))
      this.#known.hearingSince = { from: this.#known.hearingSince.from, to: now.to };
    this.#known.sweptAt = { ...now, epoch: this.#epoch };
    for (const life of this.online()) {
      if (life.sessions === 0 && life.sessionEpoch === this.#epoch) life.seenGoneAt ??= now;
    }
  }

  #onEpoch(at: Window): void {
    this.#epoch++;
    for (const life of this.#known.lives.values()) {
      if (life.sessions > 0) life.sessionGoneAt = at;
      life.sessions = 0;
      life.seenGoneAt = undefined;
    }
  }
}

function later(one: Window, other: Window): Window {
  return { from: Math.max(one.from, other.from), to: Math.max(one.to, other.to) };
}

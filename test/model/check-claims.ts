/**
 * Never two valid claims on one task, claim ids that grow whatever the server forgets, and every write accepted or refused as its claim on
 * its task deserves. Pure.
 */
import type { Happening, History, Record } from "./record.ts";

interface Held {
  readonly task: string;
  replica: string;
  isStarted: boolean;
}

type Of<Kind extends Happening["kind"]> = Extract<Happening, { kind: Kind }>;

export function checkClaims(history: History, record: Record): string[] {
  const claims = new Claims();
  for (const entry of history) claims.follow(entry);
  return [...claims.problems, ...claims.notKeptAsLate(record), ...claims.onRecordForOthers(record)];
}

/** What the server knows of claims. */
interface Known {
  readonly valid: Map<string, Held>;
  /** By claim, the outcome that was written. */
  readonly written: Map<string, string | undefined>;
  readonly refused: { claim: string; outcome: string | undefined }[];
}

/** Which claims hold, by what was done: claimed, and since then neither ended, given back, recovered nor forgotten. */
class Claims {
  readonly problems: string[] = [];
  #known: Known = { valid: new Map(), written: new Map(), refused: [] };
  #remembered: Known = this.#known;
  /** By claim, the task that it was issued for. Those who were told do not forget. */
  readonly #issued = new Map<string, string>();
  #largest = 0n;

  follow(entry: Happening): void {
    if (entry.kind === "claimed") this.#onClaimed(entry);
    else if (entry.kind === "wrote") this.#onWrote(entry);
    else if (entry.kind === "rehomed") this.#onRehomed(entry);
    else if (entry.kind === "swept") this.#onSwept(entry);
    else if (entry.kind === "looked") this.#onLooked(entry);
    else if (entry.kind === "remembered") this.#remembered = structuredClone(this.#known);
    else if (entry.kind === "forgot") this.#known = structuredClone(this.#remembered);
  }

  notKeptAsLate({ late }: Record): string[] {
    return this.#known.refused
      .filter(({ claim, outcome }) => !late.some((row) => row.claim === claim && row.outcome === outcome))
      .map(({ claim, outcome }) => `the outcome ${outcome} of claim ${claim} was refused and is not kept as late`);
  }

  onRecordForOthers({ attempts }: Record): string[] {
    return attempts
      .filter(({ claim, task }) => this.#issued.has(claim) && this.#issued.get(claim) !== task)
      .map(({ claim, task }) => `claim ${claim} on task ${this.#issued.get(claim)} is on record for task ${task}`);
  }

  #onClaimed({ claims, replica }: Of<"claimed">): void {
    for (const { claim, task, state } of claims) {
      if (BigInt(claim) <= this.#largest) this.problems.push(`claim ${claim} came after claim ${this.#largest}`);
      if (BigInt(claim) > this.#largest) this.#largest = BigInt(claim);
      this.#issued.set(claim, task);
      for (const [other, held] of this.#known.valid) {
        if (held.task === task) this.problems.push(`claims ${other} and ${claim} on task ${task} are valid at once`);
      }
      this.#known.valid.set(claim, { task, replica, isStarted: state === "running" });
    }
  }

  #onWrote({ what, claim, task, verdict, outcome }: Of<"wrote">): void {
    const held = this.#known.valid.get(claim);
    const isRight = held !== undefined && held.task === task && RIGHTS[what](held);
    if (verdict === "repeat") {
      if (!this.#known.written.has(claim) || this.#known.written.get(claim) !== outcome) {
        this.problems.push(`claim ${claim}: ${what} ${outcome} was taken for a repetition of what was never written`);
      }
      return;
    }
    if (verdict === "accepted" && !isRight) this.problems.push(`claim ${claim} is stale, and its ${what} was accepted`);
    if (verdict === "refused" && isRight) this.problems.push(`claim ${claim} holds, and its ${what} was refused`);
    if (verdict === "refused" && what === "finish") this.#known.refused.push({ claim, outcome });
    if (verdict !== "accepted" || !held) return;
    if (what === "start") held.isStarted = true;
    if (what === "release") this.#known.valid.delete(claim);
    if (what === "complete" || what === "finish") {
      this.#known.valid.delete(claim);
      this.#known.written.set(claim, outcome);
    }
  }

  #onRehomed({ before, after, claims }: Of<"rehomed">): void {
    for (const claim of claims) {
      const held = this.#known.valid.get(claim);
      if (held?.replica !== before)
        this.problems.push(`claim ${claim} was taken along from ${before}, which had lost it`);
      else held.replica = after;
    }
  }

  #onSwept({ recovered }: Of<"swept">): void {
    for (const { claim, replica } of recovered) {
      if (this.#known.valid.get(claim)?.replica !== replica) {
        this.problems.push(`claim ${claim} was recovered from ${replica}, which did not hold it`);
      }
      this.#known.valid.delete(claim);
    }
  }

  /** What the database says is held, and nothing else, is what holds by what was done. */
  #onLooked({ places }: Of<"looked">): void {
    const found = places.filter(({ table }) => table === "running");
    const line = (claim: string | null, held: { task: string; replica: string | null; isStarted: boolean }) =>
      `claim ${claim} on ${held.task} by ${held.replica}, ${held.isStarted ? "running" : "claimed"}`;
    const really = new Set(found.map((place) => line(place.claim, { ...place, isStarted: place.state === "running" })));
    const expected = new Set([...this.#known.valid].map(([claim, held]) => line(claim, held)));
    for (const one of really) if (!expected.has(one)) this.problems.push(`unexpected: ${one}`);
    for (const one of expected) if (!really.has(one)) this.problems.push(`gone without a reason: ${one}`);
  }
}

/** What a claim that holds gives the right to. */
const RIGHTS: { readonly [What in Of<"wrote">["what"]]: (held: Held) => boolean } = {
  start: () => true,
  release: ({ isStarted }) => !isStarted,
  guard: ({ isStarted }) => isStarted,
  complete: ({ isStarted }) => isStarted,
  finish: () => true,
};

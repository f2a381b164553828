/** Random numbers that a failed test can be run again with: set CRASH_SEED to the seed that it printed. */
export interface SeededRandom {
  /** From 0 up to, but not including, 1. */
  next(): number;
  between(least: number, most: number): number;
  pick<T>(from: readonly T[]): T;
}

export function seededRandom(what: string): SeededRandom {
  const seed = Number(process.env["CRASH_SEED"] ?? Date.now() % 1_000_000);
  console.log(`${what}: CRASH_SEED=${seed}`);
  let state = seed >>> 0;
  // Mulberry32.
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  return {
    next,
    between: (least, most) => least + Math.floor(next() * (most - least + 1)),
    pick: (from) => from[Math.floor(next() * from.length)] as (typeof from)[number],
  };
}

/** What can be done to the world, as data: drawn at random, printed where a run fails, and dropped one by one to shrink it. */
import fc from "fast-check";

/** `who` and `which` are reduced to those who are in a condition for it; where there is nobody, the step is nothing. */
export type Step =
  | { readonly do: "enqueue"; readonly kind: number; readonly count: number }
  | { readonly do: "claim"; readonly who: number; readonly run: number; readonly prefetch: number }
  | { readonly do: "start"; readonly who: number }
  | {
      readonly do: "finish";
      readonly who: number;
      readonly which: number;
      readonly how: "complete" | "fail" | "retry" | "snooze" | "in-a-round" | "in-transaction" | "guarded";
    }
  | { readonly do: "beat"; readonly who: number }
  /** No signs, no sessions, for ever. */
  | { readonly do: "kill"; readonly who: number }
  /** No signs, and the session is kept. */
  | { readonly do: "pause"; readonly who: number }
  /** The zombie tries what it was about to do before it looks at anything. */
  | { readonly do: "wake"; readonly who: number; readonly tries: "every-write" | "only-finish" | "nothing" }
  /** isSeen: the server notices too, and ends the session; else it stays half-open. */
  | { readonly do: "cut"; readonly who: number; readonly isSeen: boolean }
  /** isHeard: it gets as far as a beat; else only as far as its lock and its first word. */
  | { readonly do: "heal"; readonly who: number; readonly isHeard: boolean }
  /** The same to all but one, at the same moment. */
  | { readonly do: "strike"; readonly spared: number; readonly how: "kill" | "pause" | "cut" }
  /** The server notices that half-open connections are gone. */
  | { readonly do: "notice" }
  | { readonly do: "leave"; readonly who: number }
  | { readonly do: "join"; readonly machine: number; readonly settings: SettingsName }
  /** The server crashes and is back: another epoch, and no session. */
  | { readonly do: "restart" }
  /** The point to which the server is put back. */
  | { readonly do: "remember" }
  /** The server has lost everything since that point, the ids that it issued among them, and nobody else has. */
  | { readonly do: "forget" }
  | { readonly do: "sweep"; readonly who: number }
  | { readonly do: "confirm" }
  /** Time passes, and nothing happens that is not a step of its own. */
  | { readonly do: "pass"; readonly seconds: number }
  /** Time passes, and those who can do beat and sweep. */
  | { readonly do: "live"; readonly seconds: number };

export type SettingsName = "usual" | "patient" | "quick" | "apart";

export interface Run {
  readonly fleet: readonly SettingsName[];
  /** Everybody has something in hand from the beginning. */
  readonly isBusy: boolean;
  readonly steps: readonly Step[];
}

const who = fc.nat(7);
const settings = fc.constantFrom<SettingsName>("usual", "usual", "patient", "quick", "apart");

const step: fc.Arbitrary<Step> = fc.oneof(
  weighted(10, { do: fc.constant("enqueue"), kind: fc.nat(6), count: fc.integer({ min: 1, max: 3 }) }),
  weighted(14, { do: fc.constant("claim"), who, run: fc.nat(3), prefetch: fc.nat(2) }),
  weighted(5, { do: fc.constant("start"), who }),
  weighted(8, {
    do: fc.constant("finish"),
    who,
    which: fc.nat(3),
    how: fc.constantFrom("complete", "fail", "retry", "snooze", "in-a-round", "in-transaction", "guarded"),
  }),
  weighted(4, { do: fc.constant("beat"), who }),
  weighted(5, { do: fc.constant("kill"), who }),
  weighted(6, { do: fc.constant("pause"), who }),
  weighted(5, { do: fc.constant("wake"), who, tries: fc.constantFrom("every-write", "only-finish", "nothing") }),
  weighted(5, { do: fc.constant("cut"), who, isSeen: fc.boolean() }),
  weighted(6, { do: fc.constant("heal"), who, isHeard: fc.boolean() }),
  weighted(2, { do: fc.constant("notice") }),
  weighted(1, { do: fc.constant("leave"), who }),
  weighted(5, { do: fc.constant("join"), machine: fc.nat(4), settings }),
  weighted(3, { do: fc.constant("restart") }),
  weighted(2, { do: fc.constant("remember") }),
  weighted(1, { do: fc.constant("forget") }),
  weighted(8, { do: fc.constant("sweep"), who }),
  weighted(1, { do: fc.constant("confirm") }),
  weighted(7, { do: fc.constant("pass"), seconds: fc.constantFrom(1, 2, 4, 4, 9, 9, 15, 15, 30, 150, 1500) }),
  weighted(14, { do: fc.constant("live"), seconds: fc.constantFrom(18, 36, 54, 126, 324) }),
);

/** What seldom comes about by chance, in pieces that are drawn too. */
const seconds = fc.constantFrom(18, 54, 126, 126, 324);
const tries = fc.constantFrom("every-write" as const, "only-finish" as const);
const claim = (who: number): Step => ({ do: "claim", who, run: 2, prefetch: 1 });
const live = (seconds: number): Step => ({ do: "live", seconds });

const zombie = fc
  .tuple(who, seconds, fc.constantFrom(0, 0, 0, 1_500), tries, step)
  .map(([who, seconds, asleep, tries, between]): Step[] => [
    ...[{ do: "enqueue", kind: 2, count: 1 } as const, claim(who), { do: "pause", who } as const, live(seconds)],
    ...[{ do: "pass", seconds: asleep } as const, live(18), { do: "claim", who: 0, run: 6, prefetch: 0 } as const],
    ...[between, { do: "wake", who, tries } as const, live(18)],
  ]);
const death = fc.tuple(who, seconds).map(([who, seconds]): Step[] => [claim(who), { do: "kill", who }, live(seconds)]);
const disaster = fc
  .tuple(who, fc.constantFrom("kill" as const, "pause" as const, "cut" as const), fc.array(seconds), step)
  .map(([spared, how, times, between]): Step[] => [
    ...[5, 6, 7].map((machine): Step => ({ do: "join", machine, settings: "usual" })),
    ...[live(18), { do: "strike", spared, how } as const, live(126), between, ...times.slice(0, 2).map(live)],
  ]);
const lapse = fc
  .tuple(fc.array(step, { minLength: 1, maxLength: 6 }), who, tries, seconds)
  .map(([between, who, tries, seconds]): Step[] => [
    ...[{ do: "enqueue", kind: who, count: 2 } as const, claim(who), { do: "remember" } as const],
    ...[{ do: "finish", who, which: 0, how: "complete" } as const, claim(who + 1), { do: "pause", who } as const],
    ...[...between, { do: "forget" } as const, { do: "wake", who: 0, tries } as const, live(seconds)],
  ]);
const flapping = fc
  .tuple(who, fc.constantFrom(4, 9), fc.array(fc.tuple(fc.boolean(), fc.boolean()), { minLength: 2, maxLength: 5 }))
  .map(([who, seconds, times]): Step[] =>
    times.flatMap(([isHeard, isSwept]): Step[] => [
      ...[{ do: "cut", who, isSeen: true } as const, { do: "sweep", who: 0 } as const],
      ...[{ do: "pass", seconds } as const, ...(isSwept ? [{ do: "sweep", who: 1 } as const] : [])],
      ...[{ do: "heal", who: 0, isHeard } as const],
    ]),
  );

const piece = fc.oneof(
  { weight: 20, arbitrary: step.map((one) => [one]) },
  { weight: 2, arbitrary: zombie },
  { weight: 1, arbitrary: death },
  { weight: 1, arbitrary: disaster },
  { weight: 1, arbitrary: flapping },
  { weight: 1, arbitrary: lapse },
);

export const runs = (maxPieces: number): fc.Arbitrary<Run> =>
  fc.record({
    fleet: fc.array(settings, { minLength: 1, maxLength: 5 }),
    isBusy: fc.boolean(),
    steps: fc.array(piece, { maxLength: maxPieces, size: "max" }).map((pieces) => pieces.flat()),
  });

function weighted(weight: number, fields: { [name: string]: fc.Arbitrary<unknown> }) {
  return { weight, arbitrary: fc.record(fields) as unknown as fc.Arbitrary<Step> };
}

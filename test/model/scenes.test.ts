/**
 * Runs that are played as they are written: one for each protection, which goes red when that is switched off (see
 * test/protections), and one for each fault that the model has found.
 */
import { describe, expect, test } from "vitest";
import { openModel } from "./open-model.ts";
import type { Happening } from "./record.ts";
import type { SettingsName, Step } from "./steps.ts";
import type { Played } from "./world.ts";

const play = await openModel();
const claim = (who: number): Step => ({ do: "claim", who, run: 1, prefetch: 0 });
const enqueue: Step = { do: "enqueue", kind: 2, count: 1 };
const sweep: Step = { do: "sweep", who: 0 };
const pause = (who: number): Step => ({ do: "pause", who });
const live = (seconds: number): Step => ({ do: "live", seconds });
const pass = (seconds: number): Step => ({ do: "pass", seconds });
const wake: Step = { do: "wake", who: 0, tries: "only-finish" };
const complete: Step = { do: "finish", who: 0, which: 0, how: "complete" };
const remember: Step = { do: "remember" };
const forget: Step = { do: "forget" };

const playIn = (fleet: readonly SettingsName[], ...steps: Step[]) => play({ fleet, isBusy: false, steps });
const of = <Kind extends Happening["kind"]>({ history }: Played, kind: Kind) =>
  history.filter((entry) => entry.kind === kind) as unknown as Extract<Happening, { kind: Kind }>[];
const deaths = (played: Played) => of(played, "swept").flatMap((entry) => entry.deaths.map(({ because }) => because));
const writes = (played: Played) => of(played, "wrote").map(({ what, verdict }) => `${what} ${verdict}`);

describe("a protection", () => {
  test("fence: an outcome of a claim that was lost is refused, also when the task is running elsewhere", async () => {
    const played = await playIn(
      ...[["usual", "usual"] as const, enqueue, claim(0), pause(0), live(126)],
      ...[claim(0), wake, complete],
    );
    expect(deaths(played)).toEqual(["silent"]);
    expect(of(played, "claimed").flatMap(({ claims }) => claims)).toHaveLength(2);
    expect(writes(played)).toEqual(["finish refused", "finish accepted"]);
    expect(played.problems).toEqual([]);
  });

  test("epoch: a lock that went with the server's last life proves nothing", async () => {
    const played = await playIn(["usual", "usual"], live(18), pause(0), { do: "restart" }, live(72));
    expect(deaths(played)).toEqual([]);
    expect(played.problems).toEqual([]);
  });

  test("hearing since: silence in which nobody listened does not count", async () => {
    const join: Step = { do: "join", machine: 4, settings: "usual" };
    const played = await playIn(["usual"], sweep, pause(0), pass(150), join, sweep, live(72));
    expect(deaths(played)).toEqual([]);
    expect(played.problems).toEqual([]);
    const longer = await playIn(["usual"], sweep, pause(0), pass(150), join, sweep, live(126));
    expect(deaths(longer)).toEqual(["silent"]);
  });

  test("guard: most machines at once are dead only after a hold", async () => {
    const fleet = ["usual", "usual", "usual", "usual"] as const;
    const ends = [pause(0), pause(0), pause(0)];
    const played = await playIn(fleet, live(18), ...ends, live(216));
    expect(deaths(played)).toEqual([]);
    expect(of(played, "swept").at(-1)?.heldSince).toBeDefined();
    expect(played.problems).toEqual([]);
    const longer = await playIn(fleet, live(18), ...ends, live(486));
    expect(deaths(longer)).toEqual(["silent", "silent", "silent"]);
    expect(longer.problems).toEqual([]);
  });

  test("promise: nobody is dead before the time in which its own heart stops its work", async () => {
    const played = await playIn(["patient", "quick"], live(18), pause(0), live(324));
    expect(deaths(played)).toEqual([]);
    expect(played.problems).toEqual([]);
    const longer = await playIn(["patient", "quick"], live(18), pause(0), live(396));
    expect(deaths(longer)).toEqual(["silent"]);
  });
});

describe("a server that has lost the last part of its memory", () => {
  test("knows nothing of a claim of that time, and issues larger ids", async () => {
    const played = await playIn(
      ...[["usual", "usual"] as const, enqueue, remember, claim(0), pause(0), forget, live(18)],
      ...[claim(0), wake, complete],
    );
    const claims = of(played, "claimed").flatMap((entry) => entry.claims);
    expect(claims.map(({ task }) => task)).toEqual([claims[0]?.task, claims[0]?.task]);
    expect(writes(played)).toEqual(["finish refused", "finish accepted"]);
    expect(played.problems).toEqual([]);
  });

  test("has a task as running that has ended: its worker says so, and it runs again under another claim", async () => {
    const played = await playIn(["usual"], enqueue, claim(0), remember, complete, forget, live(18), claim(0), complete);
    expect(of(played, "wrote").map(({ outcome, verdict }) => `${outcome} ${verdict}`)).toEqual([
      ...["completed accepted", "aborted accepted", "completed accepted"],
    ]);
    expect(played.problems).toEqual([]);
  });

  test("has a replica as alive that has died since: its silence counts anew, and it dies again", async () => {
    const kill: Step = { do: "kill", who: 0 };
    const played = await playIn(["usual", "usual"], remember, live(18), kill, live(54), forget, live(72));
    expect(deaths(played)).toEqual(["session-lost"]);
    expect(played.problems).toEqual([]);
    const longer = await playIn(["usual", "usual"], remember, live(18), kill, live(54), forget, live(126));
    expect(deaths(longer)).toEqual(["session-lost", "silent"]);
    expect(longer.problems).toEqual([]);
  });

  test("does not know a replica that has joined since, which comes back under another id", async () => {
    const join: Step = { do: "join", machine: 4, settings: "usual" };
    const played = await playIn(["usual"], remember, join, enqueue, claim(1), forget, live(18));
    expect(of(played, "beat").filter(({ isHeard }) => !isHeard)).toHaveLength(1);
    expect(of(played, "joined")).toHaveLength(3);
    expect(played.problems).toEqual([]);
  });
});

describe("a hold", () => {
  const kill: Step = { do: "kill", who: 0 };
  const fleet = ["usual", "usual", "usual", "usual"] as const;

  test("that nobody has renewed for long was left behind: the same deaths are held anew", async () => {
    const played = await playIn(fleet, live(18), kill, kill, kill, live(54), pass(1_500), sweep, live(216));
    expect(deaths(played)).toEqual([]);
    expect(played.problems).toEqual([]);
    const longer = await playIn(fleet, live(18), kill, kill, kill, live(54), pass(1_500), sweep, live(324));
    expect(deaths(longer)).toEqual(["session-lost", "session-lost", "session-lost"]);
    expect(longer.problems).toEqual([]);
  });

  test("that was left behind cannot be confirmed, and the word on one is not for the next", async () => {
    const confirm: Step = { do: "confirm" };
    const before = await playIn(fleet, live(18), kill, kill, kill, live(54), pass(1_500), confirm, sweep, live(54));
    expect(deaths(before)).toEqual([]);
    expect(before.problems).toEqual([]);
    const word = await playIn(fleet, live(18), kill, kill, kill, live(54), confirm, pass(1_500), sweep, live(54));
    expect(deaths(word)).toEqual([]);
    expect(word.problems).toEqual([]);
  });
});

describe("a fault that the model has found does not come back:", () => {
  test("a replica that was declared dead, and forgotten since, gets no claim", async () => {
    const zombie: Step = { do: "wake", who: 0, tries: "every-write" };
    const played = await playIn(["usual", "usual"], pause(0), live(126), pass(1_500), live(18), enqueue, zombie);
    expect(deaths(played)).toEqual(["silent"]);
    expect(of(played, "claimed").flatMap(({ claims }) => claims)).toEqual([]);
    expect(played.problems).toEqual([]);
  });

  test("a session that was had again, if only for a moment, is counted anew when it is gone", async () => {
    const flap: Step[] = [
      ...[{ do: "cut", who: 0, isSeen: true } as const, sweep, pass(9)],
      ...[{ do: "heal", who: 0, isHeard: false } as const],
    ];
    const played = await playIn(["usual", "patient"], live(18), ...flap, ...flap, ...flap, sweep);
    expect(deaths(played)).toEqual([]);
    expect(played.problems).toEqual([]);
  });
});

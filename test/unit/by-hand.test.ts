/** What may be taken from an owner by hand: never more than its heart's promise allows. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery, PROFILES, type ProfileName } from "../../src/config/recovery-options.ts";
import { heartPlanOf } from "../../src/heart/heart-plan.ts";
import { ownerByHand } from "../../src/recovery/by-hand.ts";
import { newReplicaId } from "../../src/task/ids.ts";

const settingsOf = (profile: ProfileName) => checkRecovery({ profile }, new Problems());
const owner = fc
  .record({
    profile: fc.constantFrom(...(Object.keys(PROFILES) as ProfileName[])),
    ownerStatus: fc.constantFrom("online", "draining", "offline", "dead", "missing"),
    silentForMs: fc.option(fc.double({ min: 0, max: 1e6, noNaN: true })),
    hasSession: fc.boolean(),
    holdsSession: fc.boolean(),
    sessionFreeForMs: fc.option(fc.double({ min: 0, max: 1e6, noNaN: true })),
  })
  .map(({ profile, holdsSession, hasSession, ...signs }) => {
    const settings = settingsOf(profile);
    const { promise } = heartPlanOf(settings);
    const id = { owner: newReplicaId(), hostname: "h", settings, beatAt: null };
    return { ...signs, ...id, hasSession, holdsSession: hasSession && holdsSession, ...promise };
  });
const state = fc.constantFrom("claimed", "running");
const after = fc.option(fc.double({ min: 0, max: 1e6, noNaN: true }), { nil: undefined });

test("what is in the hands of one that is here and has its session is not stale before its heart has stopped for want of beats", () => {
  fc.assert(
    fc.property(owner, state, after, (signs, role, afterMs) => {
      const { isStale } = ownerByHand(signs, role, signs.settings, afterMs);
      const isHere = signs.ownerStatus === "online" || signs.ownerStatus === "draining";
      const mayHaveEnded = signs.sessionFreeForMs !== null || (signs.hasSession && !signs.holdsSession);
      if (isHere && !mayHaveEnded && (signs.silentForMs ?? 0) <= signs.promiseMs) expect(isStale).toBe(false);
      if (!isHere) expect(isStale).toBe(true);
    }),
  );
});

test("what is in the hands of one that has lost its session is not stale before it has been without for as long as it promised", () => {
  fc.assert(
    fc.property(owner, state, fc.constant(0), (signs, role, afterMs) => {
      const { isStale, isDead } = ownerByHand(signs, role, signs.settings, afterMs);
      const isHere = signs.ownerStatus === "online" || signs.ownerStatus === "draining";
      const endedForMs = Math.max(signs.sessionFreeForMs ?? 0, (signs.silentForMs ?? 0) - signs.intervalMs);
      if (!isHere || (signs.silentForMs ?? 0) > signs.promiseMs || endedForMs > signs.sessionPromiseMs) return;
      expect({ isStale, isDead }).toEqual({ isStale: false, isDead: false });
    }),
  );
});

test("one that was killed is dead once its session has been gone for that long, whether anybody listened or not", () => {
  const settings = settingsOf("fast");
  const { promise } = heartPlanOf(settings);
  const killed = {
    ...({ owner: newReplicaId(), hostname: "h", settings, beatAt: null, ownerStatus: "online", ...promise } as const),
    ...{ hasSession: true, holdsSession: false, sessionFreeForMs: null },
  };
  const byHand = (silentForMs: number) => ownerByHand({ ...killed, silentForMs }, "running", settings, 1_000);
  const gone = promise.sessionPromiseMs + 1.5 * promise.intervalMs;
  expect(byHand(gone)).toEqual({ isStale: false, isDead: false });
  expect(byHand(gone + 1)).toEqual({ isStale: true, isDead: true });
});

test("a longer time asks for at least that silence, and says nothing about whether the owner is dead", () => {
  fc.assert(
    fc.property(owner, state, fc.double({ min: 0, max: 1e6, noNaN: true }), (signs, role, afterMs) => {
      const asked = ownerByHand(signs, role, signs.settings, afterMs);
      const usual = ownerByHand(signs, role, signs.settings, undefined);
      const isHere = signs.ownerStatus === "online" || signs.ownerStatus === "draining";
      if (isHere && asked.isStale) expect(signs.silentForMs ?? 0).toBeGreaterThan(afterMs);
      if (usual.isDead) expect(asked.isDead).toBe(true);
    }),
  );
});

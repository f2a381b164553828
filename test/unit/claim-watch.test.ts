import { describe, expect, test } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { type ClaimId, newReplicaId, type TaskId } from "../../src/task/ids.ts";
import { createClaimWatch } from "../../src/worker/claim-watch.ts";
import type { Execution } from "../../src/worker/execution.ts";
import { Hand } from "../../src/worker/hand.ts";
import { Slots } from "../../src/worker/slots.ts";

/** A look at the claims of a worker that runs one task; the database answers that it holds these, which are none unless told. */
function lookThat(
  during: (state: { replica: { id: ReturnType<typeof newReplicaId> }; isMoving: boolean }) => void,
  held: readonly { claimId: string; taskId: string; isCancelled: boolean; reason: null }[] = [],
) {
  const controller = new AbortController();
  const hand = new Hand(new Map(), new Slots(1, new Map()));
  const claimed = { claimId: "1" as ClaimId, taskId: "some task" as TaskId };
  hand.begin({
    claimed,
    claim: { completedInTransaction: false },
    signal: controller.signal,
    abort: (reason: unknown) => controller.abort(reason),
  } as unknown as Execution);
  const state = { replica: { id: newReplicaId() }, isMoving: false };
  const query = async () => {
    during(state);
    return held;
  };
  const watch = createClaimWatch({
    ...{ database: { schema: "x", query } as unknown as Database, replica: state.replica, hand, intervalMs: 1_000 },
    ...{ onLooked: () => {}, onUnbegun: () => {}, onUnknown: () => {}, onLost: () => {}, onError: () => {} },
    isMoving: () => state.isMoving,
  });
  return { watch, controller };
}

describe("a worker's look at its claims", () => {
  test("tells a handler whose claim is gone", async () => {
    const { watch, controller } = lookThat(() => {});
    await watch.runOnce();
    expect(controller.signal.reason).toMatchObject({ code: "CLAIM_LOST" });
  });

  test("tells a handler whose claim is on another task by now", async () => {
    const { watch, controller } = lookThat(() => {}, [
      { claimId: "1", taskId: "another task", isCancelled: false, reason: null },
    ]);
    await watch.runOnce();
    expect(controller.signal.reason).toMatchObject({ code: "CLAIM_LOST" });
  });

  test("leaves a handler alone whose claim holds", async () => {
    const { watch, controller } = lookThat(() => {}, [
      { claimId: "1", taskId: "some task", isCancelled: false, reason: null },
    ]);
    await watch.runOnce();
    expect(controller.signal.aborted).toBe(false);
  });

  test("says nothing about claims that were moving to another id meanwhile", async () => {
    const { watch, controller } = lookThat((state) => {
      state.isMoving = true;
    });
    await watch.runOnce();
    expect(controller.signal.aborted).toBe(false);
  });

  test("says nothing about claims that have moved to another id meanwhile", async () => {
    const { watch, controller } = lookThat((state) => {
      state.replica.id = newReplicaId();
    });
    await watch.runOnce();
    expect(controller.signal.aborted).toBe(false);
  });
});

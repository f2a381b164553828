/** What is said where nothing is stale yet: who has been silent, and until when nothing is taken. */
import { expect, test } from "vitest";
import { notYetStaleWords } from "../../src/cli/silent-owners.ts";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery } from "../../src/config/recovery-options.ts";
import { heartStateOf } from "../../src/recovery/heart-state.ts";
import type { ReplicaRow } from "../../src/sql/replicas.ts";

const well = {
  ...{
    status: "online",
    unheardSince: null,
    claimed: 0,
    running: 1,
    silentForMs: 900,
    intervalMs: 2_000,
    promiseMs: 13_500,
  },
  ...{ hasSession: true, holdsSession: true, sessionFreeForMs: null, sessionPromiseMs: 600, vitals: null },
};
function words(rows: Partial<ReplicaRow>[], afterMs?: number, profile = "fast"): string | undefined {
  const settings = checkRecovery({ profile }, new Problems());
  const replicas = rows.map((row) => ({ ...well, ...row }) as ReplicaRow);
  return notYetStaleWords(
    replicas.map((replica) => ({ ...replica, heart: heartStateOf(replica, settings) })),
    afterMs,
  );
}

test("nothing of those that are heard, hold nothing, or cannot be heard", () => {
  expect(words([])).toBeUndefined();
  expect(
    words([{}, { silentForMs: 9_000, running: 0 }, { silentForMs: 9_000, unheardSince: new Date() }]),
  ).toBeUndefined();
});

test("how long the longest has been silent, and when its heart will have stopped", () => {
  expect(words([{}, { silentForMs: 8_300 }])).toBe(
    "1 task is held by a worker that has been silent for 8.3s. Nothing is taken before its heart has promised to have stopped: after 13.5s.",
  );
  expect(words([{ silentForMs: 8_300, claimed: 2 }, { silentForMs: 7_000 }])).toMatch(
    /^4 tasks are held by 2 workers that have been silent for 8\.3s\./,
  );
});

test("nothing of silences that are shorter than was asked for", () => {
  expect(words([{ silentForMs: 8_300 }], 10_000)).toBeUndefined();
});

test("whose session is gone, before it is declared dead", () => {
  expect(words([{}, { holdsSession: false }])).toBe(
    "1 task is held by a worker whose database session is gone, as it is when a process dies. Another worker declares it dead in a second or two; if none runs, nothing happens until one starts.",
  );
  expect(words([{ sessionFreeForMs: 400 }, { holdsSession: false, claimed: 1 }])).toMatch(
    /^3 tasks are held by 2 workers whose database sessions are gone/,
  );
  expect(words([{ holdsSession: false, running: 0 }])).toBeUndefined();
  expect(words([{ holdsSession: false }], undefined, "replica")).toBeUndefined();
});

/** A database that is behind what its workers have seen: promoted too early, or restored from a backup. */
import { test, vi } from "vitest";
import { expectRightsToSurvive, FORGETTING_SETTINGS } from "../support/forgetting.ts";
import { startOwnServer } from "../support/own-server.ts";
import { promotedBehind, restoredFromBackup } from "../support/ways-to-forget.ts";

vi.setConfig({ testTimeout: 240_000 });

test("an asynchronous standby that is promoted behind its primary", async () => {
  await expectRightsToSurvive(await promotedBehind(await startOwnServer({ settings: FORGETTING_SETTINGS })));
});

test("a base backup that is restored at the same address, while workers of a later time still run", async () => {
  await expectRightsToSurvive(restoredFromBackup(await startOwnServer({ settings: FORGETTING_SETTINGS })));
});

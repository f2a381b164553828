/** What the ordinary tests show for seconds or a few runs, for a minute or many; raw results in results/. */
import { mkdir, writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import type { CutDirection } from "../support/cutting-proxy.ts";
import { type CutRun, openCutScene } from "../support/heart-cut.ts";
import { blockTheEventLoop, endTheSessionEverySecond } from "../support/heart-scenes.ts";

const CUTS = Number(process.env["EVERBEAT_CUTS"] ?? 50);
const DIRECTIONS: readonly CutDirection[] = ["both", "to server", "to worker"];

test("an event loop that is blocked for a minute costs nothing", () => blockTheEventLoop(60_000));

test("a heart whose session is ended every second for a minute is not dead", () => endTheSessionEverySecond(60_000));

test.each(["obey", "ignore", "block"] as const)(
  `a worker that is cut off has stopped before another begins, in ${CUTS} of ${CUTS} runs (%s)`,
  async (how) => {
    const scene = await openCutScene();
    const runs: CutRun[] = [];
    for (let run = 0; run < CUTS; run++) runs.push(await scene.run(how, DIRECTIONS[run % DIRECTIONS.length] ?? "both"));
    const folder = new URL("results/", import.meta.url);
    await mkdir(folder, { recursive: true });
    await writeFile(new URL(`cuts-${how}.json`, folder), `${JSON.stringify(runs, null, 1)}\n`);
    expect(runs.filter(({ gapMs }) => gapMs <= 0)).toEqual([]);
    // One that obeys and that the machine kept from running for the 300 ms that it had for that was rightly ended.
    const asItShould = runs.filter(({ ended }) => ended === (how === "obey" ? "lives on" : "SIGKILL")).length;
    expect(asItShould).toBeGreaterThanOrEqual(how === "obey" ? 0.9 * CUTS : CUTS);
  },
);

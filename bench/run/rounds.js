/** Runs a measure: every case once per round, there and back again, so that a machine that slows down hits all alike. */
import { fileURLToPath } from "node:url";
import { loadNow } from "../environment/machine.js";
import { msSince, nowNs } from "../process/clock.js";
import { Stage } from "./stage.js";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** No case may hold up the run for longer: it has failed then, and the next one begins. */
const LIMIT_MS = 180_000;

export async function runMeasure(measure, { environment, asked, progress }) {
  const rounds = asked.rounds ?? (asked.isShort ? measure.rounds.short : measure.rounds.full);
  const cases = asked.cases ? measure.cases.filter((name) => isAsked(name, asked.cases)) : measure.cases;
  const samples = Object.fromEntries(cases.map((name) => [name, []]));
  const sampled = async (name) => samples[name].push(...(await runCase(measure, name, { environment, asked })));
  for (let round = 0; round < rounds; round++) {
    if (measure.isTogether) {
      progress.step(`${measure.title} · round ${round + 1} of ${rounds} · all at once`);
      await Promise.all(cases.map((name) => sampled(name)));
      continue;
    }
    const order = round % 2 === 0 ? cases : [...cases].reverse();
    for (const name of order) {
      progress.step(`${measure.title} · round ${round + 1} of ${rounds} · ${name}`);
      // What cannot work is not tried again in every round.
      const failures = samples[name].filter((sample) => sample.failed);
      if (failures.length >= 2) continue;
      await sampled(name);
    }
  }
  return { name: measure.name, title: measure.title, unit: measure.unit, rounds, samples };
}

async function runCase(measure, name, { environment, asked }) {
  const stage = new Stage(environment, asked);
  const startedNs = nowNs();
  const load = loadNow();
  const limitMs = measure.limitMs ?? LIMIT_MS;
  let timer;
  try {
    const limit = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`not done within ${limitMs / 1000} s`)), limitMs);
    });
    // Some have several rounds of their own within one run.
    const figures = [await Promise.race([measure.run(stage, name), limit])].flat();
    return figures.map((one) => ({ ...one, tookMs: Math.round(msSince(startedNs)), load }));
  } catch (error) {
    return [{ failed: inOneLine(error), tookMs: Math.round(msSince(startedNs)), load }];
  } finally {
    clearTimeout(timer);
    await stage.clear().catch(() => {});
  }
}

function isAsked(name, asked) {
  return asked.includes(name) || asked.includes(name.split("/")[0]);
}

/** Without the paths of this machine, since it goes on record. */
function inOneLine(error) {
  const [line] = String(error?.message ?? error).split("\n");
  return line.replaceAll(root, "");
}

/** Measures Everbeat beside its peers, in one run on one PostgreSQL: `npm run bench -- --help`. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { readArguments } from "./arguments.js";
import { describeMachine, loadNow } from "./environment/machine.js";
import { installPeers } from "./environment/peers.js";
import { startPostgres } from "./environment/postgres.js";
import { startRedis } from "./environment/redis.js";
import { judge } from "./goals.js";
import { MEASURES, ON_REQUEST } from "./measures/index.js";
import { createProgress } from "./report/progress.js";
import { goalTable } from "./report/table.js";
import { writeDocs } from "./report/write-docs.js";
import { runMeasure } from "./run/rounds.js";

const folder = dirname(fileURLToPath(import.meta.url));
const asked = readArguments(process.argv.slice(2), MEASURES, ON_REQUEST);
if (asked.help) console.log(asked.help);
else if (asked.list)
  for (const { name, title } of [...MEASURES, ...ON_REQUEST]) console.log(`${name.padEnd(18)}${title}`);
else if (asked.writeDocs) sayWritten(writeDocs(asked.docsFrom));
else await measure();

async function measure() {
  const progress = createProgress();
  const begunAt = new Date();
  const { node, versions } = installPeers(progress.note);
  const postgres = await startPostgres();
  const redis = await startRedis(progress.note);
  const end = once(async () => {
    progress.end();
    await redis?.stop();
    await postgres.stop();
  });
  process.once("SIGINT", () => end().finally(() => process.exit(130)));
  const environment = { postgres, redis, node, settingsUsed: {} };
  const results = {
    begunAt: begunAt.toISOString(),
    isShort: asked.isShort,
    scale: asked.scale,
    machine: { ...describeMachine(), loadAtTheStart: loadNow() },
    versions: { everbeat: ownVersion(), ...versions, redis: redis?.version },
    postgres: postgres.settings,
    redis: redis?.settings,
    settings: environment.settingsUsed,
    measures: {},
  };
  let file;
  try {
    for (const one of asked.measures) {
      const outcome = await runMeasure(one, { environment, asked, progress });
      results.measures[one.name] = outcome;
      file = write(results, begunAt);
    }
  } finally {
    await end();
  }
  console.log(goalTable(judge(results)));
  console.log(`\nAll figures of all rounds: ${relative(process.cwd(), file)}`);
}

function once(act) {
  let done;
  return () => {
    done ??= act();
    return done;
  };
}

/** After every measure, so that a run that is broken off has not been for nothing. */
function write(results, begunAt) {
  const name = `${begunAt.toISOString().slice(0, 16).replace(":", "")}${asked.isShort ? "-short" : ""}.json`;
  const file = asked.out ?? join(folder, "results", name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify(results, null, 1)}\n`);
  return file;
}

function sayWritten({ file, written }) {
  console.log(`From ${file}:\n  ${written.join("\n  ")}`);
}

function ownVersion() {
  return JSON.parse(readFileSync(join(folder, "..", "package.json"), "utf8")).version;
}

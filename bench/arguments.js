/** What the bench was asked for. */
import { parseArgs } from "node:util";

const HELP = `npm run bench [-- OPTIONS]

  --short              smaller amounts and fewer rounds: a few minutes in all
  --only NAMES         only these measures, separated by commas
  --cases NAMES        only these systems or cases, separated by commas (ours is "everbeat")
  --rounds N           so many rounds of each measure
  --scale FACTOR       so much of the usual amounts, for example 0.1
  --out FILE           where the results go (default: bench/results/DATE[-short].json)
  --write-docs [FILE]  measure nothing: write docs/performance.md and its plots from the newest full results, or from FILE
  --list               name the measures
`;

/** `onRequest`: measures that run only where they are named. */
export function readArguments(args, measures, onRequest) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      short: { type: "boolean", default: false },
      only: { type: "string" },
      cases: { type: "string" },
      rounds: { type: "string" },
      scale: { type: "string", default: "1" },
      out: { type: "string" },
      "write-docs": { type: "boolean", default: false },
      list: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  const all = [...measures, ...onRequest];
  const names = all.map((measure) => measure.name);
  const only = values.only?.split(",").map((name) => name.trim());
  const unknown = only?.filter((name) => !names.includes(name)) ?? [];
  if (unknown.length > 0) throw new Error(`There is no measure ${unknown.join(", ")}. There are: ${names.join(", ")}`);
  const rounds = values.rounds === undefined ? undefined : Number(values.rounds);
  if (rounds !== undefined && !(Number.isInteger(rounds) && rounds > 0)) throw new Error("--rounds must be 1 or more");
  const scale = Number(values.scale);
  if (!(scale > 0)) throw new Error("--scale must be a number above 0");
  return {
    help: values.help ? HELP : undefined,
    list: values.list,
    isShort: values.short,
    measures: only ? all.filter((measure) => only.includes(measure.name)) : measures,
    cases: values.cases?.split(",").map((name) => name.trim()),
    rounds,
    scale,
    out: values.out,
    writeDocs: values["write-docs"],
    docsFrom: values["write-docs"] ? positionals[0] : undefined,
  };
}

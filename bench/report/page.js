/** docs/performance.md, from a file of results. What people write by hand is between marks, and kept. */
import { judge } from "../goals.js";
import { labelOf } from "../systems/index.js";
import { figureOf, isBoundOf } from "./compare.js";
import { unitOf } from "./table.js";
import { boundInWords, inWords, measuredInWords, round } from "./words.js";

/** `before`: the page as it is, of which the hand-written parts are kept. */
export function writePage({ results, file, plots, before = "" }) {
  const kept = (name) => keptPart(before, name);
  const plot = (name) => (plots[name] ? `\n![${titleOf(plots[name])}](images/${name})\n` : "");
  return `# Performance

<!-- Written by \`npm run bench -- --write-docs\` from ${file}. Only what is between the marks "kept" and "end" is kept. -->

Everbeat is measured beside [pg-boss](https://github.com/timgit/pg-boss), [graphile-worker](https://github.com/graphile/worker) and
[BullMQ](https://github.com/taskforcesh/bullmq), in one run, on one machine and one PostgreSQL. Read the ratios: another machine has
other figures, and much the same ratios. Every figure of every round, and every setting, is in
[\`${file}\`](../${file}).
${caveats(results)}
## Goals, and what was reached

A ratio is ours to theirs, the median over interleaved rounds; in brackets from where to where the rounds went.

${goalRows(judge(results))}

${kept("what was found")}

## Plots

The thin line on a bar goes from the worst to the best round.
${plot("performance-drain.svg")}${plot("performance-enqueue.svg")}${plot("performance-latency.svg")}${plot("performance-costs.svg")}${plot("performance-growth.svg")}${plot("performance-crash.svg")}${plot("performance-footprint.svg")}
${kept("where the time goes")}

## Method

\`\`\`sh
npm run bench                                   # everything
npm run bench -- --short                        # the same, smaller, in minutes
npm run bench -- --only drain,latency --rounds 3
npm run bench -- --write-docs                   # this page and its plots, from the newest results
\`\`\`

${method(results)}

### Settings

${settingsRows(results)}

## All figures

The median of the rounds, and from where to where they went.

${Object.values(results.measures).map(figureRows).join("\n\n")}
`;
}

function titleOf(svg) {
  return /aria-label="([^"]*)"/.exec(svg)?.[1] ?? "";
}

/** With its marks, or an empty one to be filled. */
function keptPart(before, name) {
  const begin = `<!-- kept: ${name} -->`;
  const end = `<!-- end: ${name} -->`;
  const from = before.indexOf(begin);
  const to = before.indexOf(end);
  if (from >= 0 && to > from) return before.slice(from, to + end.length);
  return `${begin}\n## ${name[0].toUpperCase()}${name.slice(1)}\n\nNot written yet.\n${end}`;
}

function caveats({ isShort, scale, machine }) {
  const said = [];
  if (isShort) said.push("This was a short run: smaller amounts, fewer rounds.");
  if (scale !== 1) said.push(`It had ${scale} × the usual amounts.`);
  if (machine.loadAtTheStart > machine.cores / 2)
    said.push(`The machine had other work to do (load ${machine.loadAtTheStart} on ${machine.cores} cores).`);
  return said.length === 0 ? "" : `\n> ${said.join(" ")} Do not quote these figures.\n`;
}

function goalRows(goals) {
  const rows = goals.flatMap(({ title, goal, lines }) =>
    lines.map((line, index) => {
      const verdict = line.verdict === "reached" ? "reached" : line.verdict === "MISSED" ? "**MISSED**" : line.why;
      const absolute =
        line.kind === "ratio" && line.ours ? `${inWords(line.ours.median, unitOf(line))} to ${theirs(line)}` : "";
      const cells = [
        ...[index === 0 ? title : "", index === 0 ? goal : "", line.what],
        ...[measuredInWords(line), boundInWords(line), absolute, verdict],
      ];
      return `| ${cells.join(" | ")} |`;
    }),
  );
  return ["| measure | goal | | measured | wanted | ours to theirs | |", "|---|---|---|---|---|---|---|", ...rows].join(
    "\n",
  );
}

function theirs(line) {
  return `${line.isAtLeast ? "> " : ""}${inWords(line.theirs.median, unitOf(line))}`;
}

function method({ machine, versions, postgres, redis }) {
  const settings = Object.entries(postgres).map(([name, value]) => `${name} ${value}`);
  const { everbeat, node, ...peers } = versions;
  const names = Object.entries(peers).filter(([, version]) => version);
  return [
    `- Machine: ${machine.processor}, ${machine.cores} cores, ${machine.memoryGiB} GiB, ${machine.system}.`,
    `- One PostgreSQL for all, the embedded one, as \`initdb\` makes it, in a temporary folder on the disk: ${settings.join(", ")}.`,
    ...(redis
      ? [
          `- Redis for BullMQ: ${Object.entries(redis)
            .map(([name, value]) => `${name} ${value || '""'}`)
            .join(", ")}.`,
        ]
      : []),
    `- Everbeat ${everbeat} through its public API, as users get it: fencing, the record of attempts, hearts and sweeps are on. Peers: ${names.map(([name, version]) => `${name} ${version}`).join(", ")}.`,
    `- Every process, ours too, runs in the Node that the peers need (${node}), from the npm package \`node\`.`,
    "- Rounds are interleaved: every system once per round, in turn forwards and backwards, each with an empty database of its own.",
    "- A drain: tasks are enqueued in bulk, the tables analysed, workers connected, then all start at once. The clock runs from the first task's start until the system says that none is unfinished. Workers start with their system's tuned settings, below.",
    "- Processor time is that of the server with all its processes, and of the enqueuing and working processes, from `/proc`. WAL is the difference of the server's insert position; a checkpoint goes before every round, so that page images fall on all alike.",
    "- What would take hours (5,000,000 ended tasks, 1,000 replicas) is loaded straight into the tables (`bench/run/load.js`).",
    "- One exclusive key means one task after the other, each with a durable end before the next may begin. It is compared with plain tasks run one at a time.",
    "- A system that hangs is given up after some minutes and reported as failed; the run goes on.",
  ].join("\n");
}

function settingsRows({ settings }) {
  const rows = Object.entries(settings).map(([name, value]) => `| ${labelOf(name)} | \`${JSON.stringify(value)}\` |`);
  return ["| system | settings beyond its defaults |", "|---|---|", ...rows].join("\n");
}

/** Every figure that the measure has, in columns. */
function figureRows(measure) {
  const figures = [
    ...new Set(
      Object.values(measure.samples)
        .flat()
        .flatMap((sample) => figureNames(sample)),
    ),
  ];
  const head = ["", ...figures.map((figure) => inPlainWords(figure))];
  const rows = Object.keys(measure.samples).map((name) => {
    const failure = measure.samples[name].find((sample) => sample.failed);
    if (failure && figures.every((figure) => !Number.isFinite(figureOf(measure, name, figure).median)))
      return [
        labelOf(name),
        `failed: ${failure.failed.split("\n")[0].replaceAll("|", "\\|")}`,
        ...figures.slice(1).map(() => ""),
      ];
    return [labelOf(name), ...figures.map((figure) => cell(measure, name, figure))];
  });
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [`### ${measure.title}`, "", line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

const NOT_SHOWN = ["tookMs", "load", "isBound", "failed"];

function figureNames(sample, prefix = "") {
  return Object.entries(sample).flatMap(([name, value]) => {
    if (NOT_SHOWN.includes(name)) return [];
    return typeof value === "object" && value !== null ? figureNames(value, `${prefix}${name}.`) : [`${prefix}${name}`];
  });
}

function cell(measure, name, figure) {
  const { median, min, max } = figureOf(measure, name, figure);
  if (!Number.isFinite(median)) return "–";
  const unit = unitOf({ figure, unit: undefined });
  const spread = min < max ? ` (${round(min)}–${round(max)})` : "";
  const bound = isBoundOf(measure, name) && figure === "ms" ? "> " : "";
  return `${bound}${unit === "bytes" ? inWords(median, unit) : `${round(median)}${spread}`}`;
}

/** "drain.serverMicros" is "drain: server µs". */
function inPlainWords(figure) {
  const words = figure
    .split(".")
    .map((part) => part.replace(/([A-Z0-9]+)/g, (found) => ` ${found.toLowerCase()}`).trim())
    .join(": ");
  return words.replace("micros", "µs").replace("per second", "tasks/s");
}

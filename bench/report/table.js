/** The goals and what was reached, for a terminal. */
import { boundInWords, inWords, measuredInWords } from "./words.js";

export function goalTable(goals) {
  const rows = goals.flatMap(({ title, goal, lines }) => [
    `\n${title}\n  goal: ${goal}`,
    ...lines.map((line) => `  ${lineInWords(line)}`),
  ]);
  const all = goals.flatMap((goal) => goal.lines);
  const count = (verdict) => all.filter((line) => line.verdict === verdict).length;
  const unknown = all.length - count("reached") - count("MISSED");
  const sum = `${count("reached")} reached, ${count("MISSED")} MISSED${unknown > 0 ? `, ${unknown} not known` : ""}`;
  return `${rows.join("\n")}\n\n${sum}`;
}

function lineInWords(line) {
  const mark = line.verdict === "reached" ? "✓" : line.verdict === "MISSED" ? "**MISSED**" : "?";
  const figures =
    line.kind === "ratio" && line.ours
      ? `${inWords(line.ours.median, unitOf(line))} to ${line.isAtLeast ? "> " : ""}${inWords(line.theirs.median, unitOf(line))}`
      : "";
  const cells = [
    line.what.padEnd(58),
    measuredInWords(line).padEnd(22),
    boundInWords(line).padEnd(10),
    mark.padEnd(11),
  ];
  return `${cells.join(" ")}${figures}${line.why ? ` ${line.why}` : ""}`;
}

/** A figure whose name says what it is counted in is counted in that. */
export function unitOf({ figure, unit }) {
  if (/Bytes$/.test(figure)) return "bytes";
  if (/Micros|micros/.test(figure)) return "µs";
  return unit;
}

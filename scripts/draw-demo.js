// Draws docs/images/demo.svg: what `everbeat demo` prints at a terminal, without the frames of its progress line.
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";

const run = spawnSync("script", ["-qec", "node dist/cli/main.js demo", "/dev/null"], {
  encoding: "utf8",
  env: { ...process.env, COLUMNS: "110" },
});
if (run.status !== 0) throw new Error(`the demo ended with ${run.status}`);

const COLOURS = {
  31: "#f7768e",
  32: "#9ece6a",
  33: "#e0af68",
  34: "#7aa2f7",
  35: "#bb9af7",
  36: "#7dcfff",
  90: "#737aa2",
};
const LINE = 19;
const CHARACTER = 8.4;

/** What a terminal shows in the end of a line that was rewritten many times. */
const lines = run.stdout
  // Where it was drawn does not matter.
  .replaceAll(`${process.cwd()}/`, "")
  .split("\n")
  .map(
    (line) =>
      line
        .split(/\r|\x1b\[\d*[KGA]/)
        .filter((part) => part !== "")
        .at(-1) ?? "",
  )
  .map((line) => line.replace(/\x1b\[\?\d+[hl]/g, ""))
  .filter((line, index, all) => !(isBlank(line) && isBlank(all[index - 1] ?? "")))
  .filter((line) => !/^[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]/.test(plain(line)));

const width = Math.ceil(Math.max(...lines.map((line) => plain(line).length)) * CHARACTER) + 48;
const height = lines.length * LINE + 64;
const text = lines.map(
  (line, index) => `<text x="24" y="${56 + index * LINE}" xml:space="preserve">${spans(line)}</text>`,
);
const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" role="img" aria-label="everbeat demo">
<rect width="100%" height="100%" rx="10" fill="#1a1b26"/>
<circle cx="24" cy="22" r="6" fill="#f7768e"/><circle cx="44" cy="22" r="6" fill="#e0af68"/><circle cx="64" cy="22" r="6" fill="#9ece6a"/>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14" fill="#c0caf5">
${text.join("\n")}
</g>
</svg>
`;
mkdirSync("docs/images", { recursive: true });
writeFileSync("docs/images/demo.svg", svg);

function spans(line) {
  let style = {};
  let out = "";
  for (const [, codes, words] of `\x1b[0m${line}`.matchAll(/\x1b\[([\d;]*)m([^\x1b]*)/g)) {
    for (const code of (codes || "0").split(";").map(Number)) {
      if (code === 0) style = {};
      else if (code === 1) style = { ...style, weight: "bold" };
      else if (code === 2) style = { ...style, opacity: "0.6" };
      else if (code === 22) style = { fill: style.fill };
      else if (code === 39) style = { ...style, fill: undefined };
      else if (COLOURS[code]) style = { ...style, fill: COLOURS[code] };
    }
    if (words === "") continue;
    const attributes = [
      style.fill && `fill="${style.fill}"`,
      style.weight && `font-weight="${style.weight}"`,
      style.opacity && `opacity="${style.opacity}"`,
    ].filter(Boolean);
    const escaped = words.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
    out += attributes.length > 0 ? `<tspan ${attributes.join(" ")}>${escaped}</tspan>` : escaped;
  }
  return out;
}

function plain(line) {
  return line.replace(/\x1b\[[\d;?]*[a-zA-Z]/g, "");
}

function isBlank(line) {
  return plain(line).trim() === "";
}

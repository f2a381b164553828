/** A chart of horizontal bars as SVG: the same figures always give the same bytes. Readable on white and on black. */

const WIDTH = 820;
const LABEL = 270;
const VALUE = 130;
const BAR = 16;
const ROW = 24;
const HEAD = 30;
const BARS = WIDTH - LABEL - VALUE;

const COLOURS = {
  everbeat: ["#2563eb", "#60a5fa"],
  "graphile-worker": ["#c2710c", "#f0a742"],
  "pg-boss": ["#7c3aed", "#a78bfa"],
  bullmq: ["#0d8a7d", "#2dd4bf"],
  "bullmq-postgres": ["#64748b", "#94a3b8"],
};
const STYLE = `
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #24292f }
.title { font-size: 15px; font-weight: 600 } .group { font-weight: 600 } .value { fill: #57606a }
.axis { stroke: #8c959f; stroke-width: 1 } .spread { stroke: #24292f; stroke-width: 1.5 }
${colourRules(0)}
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .value { fill: #9198a1 } .spread { stroke: #e6edf3 }
${colourRules(1)}
}`.trim();

/**
 * `groups`: { label (or none), bars: [{ label, system, value, min, max, text }] }. Each group has a scale of its own, unless
 * `isShared`.
 */
export function barChart({ title, groups, isShared = false }) {
  const largest = (bars) => Math.max(...bars.map((bar) => bar.max ?? bar.value), Number.MIN_VALUE);
  const shared = largest(groups.flatMap((group) => group.bars));
  const parts = [];
  let y = 34;
  for (const group of groups) {
    const top = isShared ? shared : largest(group.bars);
    const x = (value) => number(LABEL + (value / top) * BARS);
    if (group.label) {
      parts.push(`<text class="group" x="0" y="${y + 18}">${escaped(group.label)}</text>`);
      y += HEAD;
    }
    const first = y;
    for (const [place, bar] of group.bars.entries()) parts.push(...drawBar(bar, first + place * ROW, x));
    y += group.bars.length * ROW;
    parts.push(`<line class="axis" x1="${LABEL}" y1="${first}" x2="${LABEL}" y2="${y - 2}"/>`);
    y += 8;
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y}" width="${WIDTH}" role="img" aria-label="${escaped(title)}">
<style>${STYLE}</style>
<text class="title" x="0" y="18">${escaped(title)}</text>
${parts.join("\n")}
</svg>
`;
}

function drawBar({ label, system, value, min, max, text }, y, x) {
  const middle = y + BAR / 2;
  const end = Math.max(x(value), x(max ?? value));
  return [
    `<text x="${LABEL - 8}" y="${middle + 5}" text-anchor="end">${escaped(label)}</text>`,
    `<rect class="${system}" x="${LABEL}" y="${y}" width="${number(x(value) - LABEL)}" height="${BAR}" rx="2"/>`,
    ...(min < max ? [`<line class="spread" x1="${x(min)}" y1="${middle}" x2="${x(max)}" y2="${middle}"/>`] : []),
    `<text class="value" x="${number(end + 8)}" y="${middle + 5}">${escaped(text)}</text>`,
  ];
}

function colourRules(which) {
  return Object.entries(COLOURS)
    .map(([system, colours]) => `.${system} { fill: ${colours[which]} }`)
    .join(" ");
}

function number(value) {
  return Math.round(value * 10) / 10;
}

function escaped(text) {
  return String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}

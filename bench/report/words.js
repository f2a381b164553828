/** Figures as people read them. */

export function inWords(value, unit) {
  if (!Number.isFinite(value)) return "–";
  if (unit === "bytes")
    return value >= 1e6 ? `${round(value / 1e6)} MB` : value >= 1e4 ? `${round(value / 1e3)} kB` : `${round(value)} B`;
  if (unit === "ms" && value >= 1_000) return `${round(value / 1000)} s`;
  return unit === undefined ? round(value) : `${round(value)} ${unit}`;
}

/** Three figures are more than a noisy machine is worth. */
export function round(value) {
  if (!Number.isFinite(value)) return "–";
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  const shown = Math.abs(value) >= 1_000 ? Number(value.toPrecision(3)) : value;
  return shown.toLocaleString("en-GB", { maximumFractionDigits: digits });
}

export function ratioInWords({ median, min, max, rounds }) {
  if (!Number.isFinite(median)) return "–";
  const spread = rounds > 1 ? ` (${min.toFixed(2)}–${max.toFixed(2)})` : "";
  return `${median.toFixed(2)} ×${spread}`;
}

/** How many there really were: a short run has fewer than the goal says. */
export function amountOf(measure, name, figure) {
  const amounts = (measure.samples[name] ?? []).map((sample) => sample[figure]).filter(Number.isFinite);
  return (amounts[0] ?? Number.NaN).toLocaleString("en-GB");
}

/** What was reached, in one cell: a ratio with its spread, or the figure itself. */
export function measuredInWords(line) {
  if (line.kind === "absolute") return inWords(line.ours.median, line.unit);
  return line.ratio ? ratioInWords(line.ratio) : "–";
}

export function boundInWords({ atLeast, atMost, kind, unit }) {
  if (atLeast !== undefined) return `≥ ${atLeast}`;
  if (atMost === undefined) return "";
  return `≤ ${kind === "absolute" ? inWords(atMost, unit) : atMost}`;
}

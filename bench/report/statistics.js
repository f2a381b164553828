/** Medians and spreads over rounds. */

export function percentile(values, share) {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  if (sorted.length === 0) return Number.NaN;
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)];
}

export function median(values) {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  if (sorted.length === 0) return Number.NaN;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** The median, and from where to where the rounds went. */
export function spreadOf(values) {
  const known = values.filter(Number.isFinite);
  return { median: median(known), min: Math.min(...known), max: Math.max(...known), rounds: known.length };
}

/** How two cases compare, round by round, since what disturbs a round disturbs its neighbours too. */
export function ratioOf(ours, theirs) {
  const pairs = ours.map((value, round) => value / theirs[round]);
  return spreadOf(pairs);
}

/** Which of two releases is the newer one, by the rules of semantic versions. */

/** Below zero: the first is older. Zero: they are the same, but for what is said of the build. */
export function compareReleases(one: string, other: string): number {
  const [a, b] = [parse(one), parse(other)];
  const byNumbers = compareParts(a.numbers, b.numbers);
  if (byNumbers !== 0) return byNumbers;
  // A release is newer than what was published for trial before it.
  if (a.trial.length === 0 || b.trial.length === 0) return b.trial.length - a.trial.length;
  return compareParts(a.trial, b.trial);
}

function parse(release: string): { readonly numbers: readonly string[]; readonly trial: readonly string[] } {
  const [version = ""] = release.split("+");
  const dash = version.indexOf("-");
  if (dash < 0) return { numbers: version.split("."), trial: [] };
  return { numbers: version.slice(0, dash).split("."), trial: version.slice(dash + 1).split(".") };
}

function compareParts(one: readonly string[], other: readonly string[]): number {
  for (const [index, part] of one.entries()) {
    const order = comparePart(part, other[index]);
    if (order !== 0) return order;
  }
  return one.length - other.length;
}

/** Numbers by their value and before words; of two lists that begin alike, the longer one is newer. */
function comparePart(one: string, other: string | undefined): number {
  if (other === undefined) return 1;
  const [isNumber, isOtherNumber] = [/^\d+$/.test(one), /^\d+$/.test(other)];
  if (isNumber && isOtherNumber) return Math.sign(Number(one) - Number(other));
  if (isNumber !== isOtherNumber) return isNumber ? -1 : 1;
  return one === other ? 0 : one < other ? -1 : 1;
}

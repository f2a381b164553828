/** Comparisons between the cases of a measure: what goals are made of. */
import { labelOf } from "../systems/index.js";
import { median, ratioOf, spreadOf } from "./statistics.js";

/** The figure of every round, by a path such as "drain.walBytes"; NaN where the case failed. */
export function valuesOf(measure, name, figure) {
  return (measure.samples[name] ?? []).map((sample) => {
    const value = figure.split(".").reduce((part, key) => part?.[key], sample);
    return typeof value === "number" ? value : Number.NaN;
  });
}

export function figureOf(measure, name, figure) {
  return spreadOf(valuesOf(measure, name, figure));
}

/** Nobody was done when the time was over: the figure is what it is at least. */
export function isBoundOf(measure, name) {
  return (measure.samples[name] ?? []).some((sample) => sample.isBound);
}

/** One line of the table: ours against another case, and whether that is enough. */
export function beside(measure, { figure, otherFigure = figure, what, other, ours = "everbeat", atLeast, atMost }) {
  const ratio = ratioOf(valuesOf(measure, ours, figure), valuesOf(measure, other, otherFigure));
  const bound = atLeast === undefined ? { atMost } : { atLeast };
  return {
    ...{ what: what ?? `against ${labelOf(other)}`, kind: "ratio", figure, unit: measure.unit },
    ...{ ratio, ours: figureOf(measure, ours, figure), theirs: figureOf(measure, other, otherFigure), ...bound },
    isAtLeast: isBoundOf(measure, other),
    ...verdictOn(ratio.median, bound, failureOf(measure, ours) ?? failureOf(measure, other)),
  };
}

/** Against whichever of these is best in the median of its rounds. */
export function besideBest(measure, { others, figure, isLowerBetter = false, ...rest }) {
  const known = others.filter((name) => Number.isFinite(median(valuesOf(measure, name, figure))));
  const ranked = known.sort((a, b) => median(valuesOf(measure, a, figure)) - median(valuesOf(measure, b, figure)));
  const best = isLowerBetter ? ranked[0] : ranked.at(-1);
  if (best === undefined) return { what: "against the best peer", kind: "unknown", why: "no peer was measured" };
  return beside(measure, { figure, other: best, what: `against the best, ${labelOf(best)}`, ...rest });
}

/** A figure of ours against a bound of its own. */
export function within(measure, { figure, ours = "everbeat", atMost, unit, what }) {
  const value = figureOf(measure, ours, figure);
  return {
    ...{ what, kind: "absolute", figure, unit, ours: value, atMost },
    ...verdictOn(value.median, { atMost }, failureOf(measure, ours)),
  };
}

function verdictOn(value, { atLeast, atMost }, failure) {
  if (!Number.isFinite(value)) return { verdict: "unknown", why: failure ?? "not measured" };
  const isReached = atLeast === undefined ? value <= atMost : value >= atLeast;
  return { verdict: isReached ? "reached" : "MISSED" };
}

export function failureOf(measure, name) {
  const failed = (measure.samples[name] ?? []).find((sample) => sample.failed);
  return failed && `${labelOf(name)} failed: ${failed.failed.split("\n")[0]}`;
}

/** Parameters on their way to the driver. */

/**
 * A list of whole numbers, as claims are, goes as one text: the driver would quote and escape each of them, which is
 * a part of the cost of a task that one can see. Everything else is left to the driver.
 */
export function toParameter(value: unknown): unknown {
  return Array.isArray(value) && value.every(isWholeNumber) ? `{${value.join(",")}}` : value;
}

function isWholeNumber(element: unknown): boolean {
  if (typeof element !== "string") return Number.isSafeInteger(element);
  for (let index = 0; index < element.length; index++) {
    const code = element.charCodeAt(index);
    if (code < DIGIT_0 || code > DIGIT_9) return false;
  }
  return element.length > 0;
}

const DIGIT_0 = 48;
const DIGIT_9 = 57;

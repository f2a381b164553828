/** Several settings in one option of the command line, as in `checkInterval=10s,massDeath.hold=30s`. */

/** A part without a value is an option of its own, which `bare` names. */
export function nameValuePairs(text: string, bare?: string): Record<string, unknown> {
  const options: Record<string, unknown> = {};
  for (const part of text.split(",").map((each) => each.trim())) {
    const [name = "", value] = part.split("=", 2);
    if (value === undefined && bare !== undefined) options[bare] = name;
    else put(options, name.split("."), toValue(value));
  }
  return options;
}

/** `massDeath.hold=30s` is an option within an option. */
function put(options: Record<string, unknown>, [first = "", ...rest]: readonly string[], value: unknown): void {
  if (rest.length === 0) {
    options[first] = value;
    return;
  }
  options[first] ??= {};
  put(options[first] as Record<string, unknown>, rest, value);
}

function toValue(text: string | undefined): unknown {
  if (text === "true" || text === "false") return text === "true";
  return text !== undefined && /^\d+(\.\d+)?$/.test(text) ? Number(text) : (text ?? "");
}

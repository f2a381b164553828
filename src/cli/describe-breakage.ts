/** Why a file of the user's could not be loaded: the message, and the lines of the stack that are the user's own. */
const MAX_FRAMES = 5;

export function describeBreakage(error: unknown): string {
  if (!(error instanceof Error)) return `  it threw ${String(error)}`;
  const frames = (error.stack ?? "")
    .split("\n")
    .filter((line) => /^\s+at /.test(line))
    .filter((line) => !/node:internal|[/\\](jiti|everbeat)[/\\]dist[/\\]|[/\\]dist[/\\]cli[/\\]/.test(line))
    .slice(0, MAX_FRAMES)
    .map((line) => `    ${line.trim()}`);
  const message = `${error.name}: ${error.message}`.replaceAll("\n", "\n  ");
  return [`  ${message}`, ...frames].join("\n");
}

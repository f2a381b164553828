/** An error in a log line for people: what it is, and where in their own code. JSON has all of it. Pure. */
import { packageFile } from "../package-files.ts";
import { shortFrame } from "../task/stack-frames.ts";

/** As a log line's fields have it. */
interface ShownError {
  readonly name?: unknown;
  readonly message: string;
  readonly code?: unknown;
  readonly stack: string;
  readonly cause?: unknown;
}

const MOST_FRAMES = 3;

export function isShownError(value: unknown): value is ShownError {
  if (typeof value !== "object" || value === null) return false;
  const { message, stack } = value as Partial<ShownError>;
  return typeof message === "string" && typeof stack === "string";
}

/** `said`: what the line says already. */
export function shortError({ name, message, code, stack, cause }: ShownError, said: string): string {
  const what = [typeof name === "string" ? name : "Error", ...(typeof code === "string" ? [code] : [])].join(" ");
  const words = message === said ? what : `${what}: ${message}`;
  const where = ownFrames(stack).join(", ");
  const behind = isShownError(cause) ? ` (cause: ${shortError(cause, "")})` : "";
  return `${words}${where === "" ? "" : ` ${where}`}${behind}`;
}

/** Neither Node's, nor those of installed packages, nor ours. */
function ownFrames(stack: string): string[] {
  const frames = stack.split("\n").map((line) => line.trim());
  return frames
    .filter((line) => line.startsWith("at ") && isOwn(line))
    .slice(0, MOST_FRAMES)
    .map(shortFrame);
}

function isOwn(frame: string): boolean {
  return !/node:|node_modules\/|<anonymous>\)?$/.test(frame) && !frame.includes(packageFile("dist"));
}

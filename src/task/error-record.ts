/** What is kept of whatever a handler threw: always storable, however odd the thing was. */
import { clip } from "../config/clip.ts";

export interface ErrorRecord {
  readonly code: string;
  readonly name?: string;
  readonly message: string;
  readonly stack?: string;
  readonly cause?: ErrorRecord;
}

const MAX_TEXT = 16_384;
const MAX_CAUSES = 5;

export function toErrorRecord(thrown: unknown, fallbackCode = "TASK_FAILED", depth = 0): ErrorRecord {
  if (!isErrorLike(thrown)) return { code: fallbackCode, message: kept(`The handler threw ${showThrown(thrown)}.`) };
  const code = readText(thrown, "code");
  const name = readText(thrown, "name");
  const stack = readText(thrown, "stack");
  const cause = safely(() => (thrown as { cause?: unknown }).cause);
  return {
    code: kept(code ?? fallbackCode),
    ...(name === undefined ? {} : { name: kept(name) }),
    message: kept(readText(thrown, "message") || name || "an error without a message"),
    ...(stack === undefined ? {} : { stack: kept(framesOf(stack)) }),
    ...(cause == null || depth >= MAX_CAUSES ? {} : { cause: toErrorRecord(cause, fallbackCode, depth + 1) }),
  };
}

/** What was thrown, unless the mere question what it is throws in turn, as a proxy can: that must not reach the worker. */
export function examinable(thrown: unknown): unknown {
  try {
    void (thrown instanceof Error);
    return thrown;
  } catch {
    return new Error("The handler threw something that cannot be examined.");
  }
}

function isErrorLike(thrown: unknown): thrown is object {
  return (
    thrown instanceof Error ||
    (typeof thrown === "object" && thrown !== null && typeof readText(thrown, "message") === "string")
  );
}

/** The frames alone: the message stands beside them, and a long one would crowd them out. */
function framesOf(stack: string): string {
  const first = stack.search(/^ +at /m);
  return first < 0 ? stack : stack.slice(first);
}

function readText(from: object, key: string): string | undefined {
  const value = safely(() => (from as Record<string, unknown>)[key]);
  return typeof value === "string" ? value : undefined;
}

function showThrown(thrown: unknown): string {
  if (typeof thrown === "string") return JSON.stringify(thrown);
  if (typeof thrown === "bigint") return `${thrown}n`;
  if (typeof thrown !== "object" || thrown === null) return String(thrown);
  return safely(() => JSON.stringify(thrown)) ?? "an object that cannot be shown";
}

/** A getter or a proxy that throws must not take the worker down with it. */
function safely<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function kept(text: string): string {
  return storableText(clip(text, MAX_TEXT, `… (${text.length} characters)`));
}

/** Without what PostgreSQL cannot turn into text: the zero character and halves of surrogate pairs. */
export function storableText(text: string): string {
  return text.replaceAll("\0", "\uFFFD").replace(LONE_SURROGATE, "\uFFFD");
}

const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g;

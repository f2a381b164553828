/** The root of every error Everbeat throws on purpose: a stable `code`, a kind, and a message that says what to do. */
import type { Advice } from "./advice.ts";

/** What an error asks of whoever made the call. A front turns the kind into its own: an exit code, a status. The table of docs/errors.md has the words. */
export type ErrorKind =
  /** What was given cannot be used: change the call. */
  | "bad-request"
  /** What was named is not there. */
  | "not-found"
  /** It does not fit with what is there: something is taken, has ended, or was changed meanwhile. */
  | "conflict"
  /** Nothing is wrong with it, and it may be done later. */
  | "not-now"
  /** A right, a version, a setting or a file does not allow it, and has to be changed first. */
  | "refused"
  /** What it needs, most often the database, is away or can do nothing now. */
  | "unavailable"
  /** It should not have happened. */
  | "internal";

export abstract class EverbeatError extends Error {
  abstract readonly code: string;
  abstract readonly kind: ErrorKind;

  /** Operations that help, where some do. */
  get advice(): readonly Advice[] {
    return [];
  }

  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
  }
}

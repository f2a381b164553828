/** The root of every error Everbeat throws on purpose: a stable `code`, and a message that says what to do. */
export abstract class EverbeatError extends Error {
  abstract readonly code: string;

  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** Calls that go on while the database is away. */
import { createBackoff } from "../database/backoff.ts";
import { isTransient } from "../database/transient.ts";

/** How long a call goes on trying; after that the caller is told. */
const PATIENCE_MS = 10_000;

/**
 * Tries again, for a while, what fails for something that passes. `again`: what is to be done may have been done before, and only the reply to
 * it was lost.
 */
export async function patiently<T>(
  work: (again: boolean) => Promise<T>,
  isPassing: (error: unknown) => boolean = isTransient,
): Promise<T> {
  const backoff = createBackoff({ firstMs: 50, maxMs: 1_000 });
  const givingUpAt = performance.now() + PATIENCE_MS;
  for (let again = false; ; again = true) {
    try {
      return await work(again);
    } catch (error) {
      if (!isPassing(error) || performance.now() > givingUpAt) throw error;
      await backoff.pause();
    }
  }
}

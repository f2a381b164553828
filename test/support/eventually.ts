/** Polls for a condition with a deadline: tests wait for what they want to see, never for time to pass. */
export async function eventually<T>(
  look: () => T | Promise<T>,
  options: { within?: number; every?: number; until?: (value: T) => boolean; what?: string } = {},
): Promise<T> {
  const { within = 10_000, every = 20, until = Boolean, what = "the condition" } = options;
  const deadline = performance.now() + within;
  let last: unknown;
  for (;;) {
    try {
      const value = await look();
      if (until(value)) return value;
      last = value;
    } catch (error) {
      last = error;
    }
    if (performance.now() > deadline) {
      throw new Error(
        `${what} did not come true within ${within} ms; last seen: ${last instanceof Error ? last.stack : JSON.stringify(last)}`,
      );
    }
    await new Promise((resume) => setTimeout(resume, every));
  }
}

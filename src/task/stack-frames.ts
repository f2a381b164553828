/** What of a stack is shown. Pure. */

/** The frame that tells the most: the innermost one that is not Node's own. */
export function firstFrame(stack: string): string {
  const frames = stack.split("\n");
  return frames.find((frame) => !/node:|<anonymous>\)?$/.test(frame)) ?? frames[0] ?? "";
}

/** The same with its file's name alone: "at fib (tasks.ts:12)". */
export function shortFrame(stack: string): string {
  const frame = firstFrame(stack);
  const match = /^at (?:(.*) \()?(?:.*\/)?([^/]+?):(\d+):\d+\)?$/.exec(frame);
  if (!match) return frame;
  const [, name, file, line] = match;
  return name ? `at ${name} (${file}:${line})` : `at ${file}:${line}`;
}

/** That many of them, and how many there are besides. */
export function innermostFrames(stack: string, most: number): string[] {
  const frames = stack.split("\n");
  const left = frames.length - most;
  return left > 0 ? [...frames.slice(0, most), `… and ${left} more`] : frames;
}

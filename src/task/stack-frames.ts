/** The frame of a stack that tells the most: the innermost one that is not Node's own. Pure. */
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

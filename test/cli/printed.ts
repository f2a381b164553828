/** What a terminal would take for a command in a text that was printed for people. */

/** The colours that the command line uses itself. */
const OWN_COLOURS = /\x1b\[(?:1|2|22|31|32|33|34|36|39)m/g;

export function withoutColours(printed: string): string {
  return printed.replace(OWN_COLOURS, "");
}

/** Every control character besides line ends and our own colours, as its code, with what stands before it. */
export function commandsToTerminal(printed: string): string[] {
  const rest = withoutColours(printed);
  return [...rest.matchAll(/[^\P{Cc}\n]|[\u2028-\u202e\u2066-\u2069]/gu)].map(
    ({ 0: sign, index }) =>
      `${sign.codePointAt(0)?.toString(16)} after ${JSON.stringify(rest.slice(index - 30, index))}`,
  );
}

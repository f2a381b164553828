/** Tells the story as it happens: finished lines, and one live line for what is going on. */

import type { Screen } from "../screen.ts";
import { type Column, table } from "../table.ts";

export interface Storyteller {
  title(text: string): void;
  chapter(number: number, text: string): void;
  tell(text: string): void;
  good(text: string): void;
  bad(text: string): void;
  /** A command that a reader could have typed. */
  command(text: string): void;
  rows<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): void;
  /** What is going on at this moment. */
  now(text: string): void;
  /** So many of so many, as a bar. */
  bar(done: number, total: number, note: string): void;
  /** Gives a reader at a terminal a moment; nobody else waits. */
  breathe(): Promise<void>;
}

const BAR_WIDTH = 24;
const BREATH_MS = 900;

export function createStoryteller(screen: Screen): Storyteller {
  const { colours } = screen;
  /** What was going on is over when there is something to tell about it. */
  const say = (line?: string) => {
    screen.progress.clear();
    screen.say(line);
  };
  return {
    title: (text) => say(colours.bold(text)),
    chapter(number, text) {
      say();
      say(`${colours.cyan(colours.bold(`${number}. ${text}`))}`);
    },
    tell: (text) => say(`  ${text}`),
    good: (text) => say(`  ${colours.green("✓")} ${text}`),
    bad: (text) => say(`  ${colours.red("✗")} ${text}`),
    command: (text) => say(`      ${colours.dim("$")} ${colours.cyan(text)}`),
    rows(rows, columns) {
      for (const line of table(rows, columns, { colours, width: screen.width, indent: 6 })) say(line);
    },
    now: (text) => screen.progress.show(text),
    bar(done, total, note) {
      const full = total === 0 ? 0 : Math.round((done / total) * BAR_WIDTH);
      const bar = `${"█".repeat(full)}${"░".repeat(BAR_WIDTH - full)}`;
      screen.progress.show(`${bar} ${done} of ${total} done   ${note}`);
    },
    async breathe() {
      if (screen.isTerminal) await new Promise((resume) => setTimeout(resume, BREATH_MS));
    },
  };
}

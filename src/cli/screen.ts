/**
 * Where everything that a command says goes: answers to standard output, all else to standard error. What is said comes line by
 * line and is made readable here (see rendered), so that no text of a user's commands the terminal or looks like another line.
 */
import { readableJson } from "../control-characters.ts";
import { outletOf } from "../outlet/outlets.ts";
import { reasonOf } from "../outlet/write-errors.ts";
import { type Colours, coloursFor, rendered } from "./colours.ts";
import type { GlobalOptions } from "./command.ts";
import { EXIT } from "./exit-codes.ts";
import { createProgressLine, type ProgressLine } from "./progress-line.ts";

const USUAL_WIDTH = 80;

export interface Screen {
  readonly isJson: boolean;
  /** Somebody is reading along as it is written. */
  readonly isTerminal: boolean;
  /** How wide a line for people may be, in columns. */
  readonly width: number;
  readonly colours: Colours;
  readonly errorColours: Colours;
  readonly progress: ProgressLine;
  /** What says which database a command acts on, as it was given with this one: what is printed to be typed carries it on. */
  given: GlobalOptions;
  /** A line for people: on standard output, or beside it where standard output belongs to JSON. */
  say(line?: string): void;
  /** A remark that is no part of the answer. */
  remark(line: string): void;
  /** The command's answer: one JSON document where that was asked for, else a line or several, if there are any. */
  answer(document: unknown, text: () => string | readonly string[]): void;
  /** One line of JSON with its line end, of which a command that goes on writes many. */
  answerLine(line: string): void;
  /** For a command that does work: from now on, what cannot be written is dropped and counted, and the work goes on. */
  outliveReaders(): void;
  /**
   * Resolves when everything is written or dropped, on both streams. A command that does work (`outliveReaders`) does not wait for a reader that
   * stands still; any other waits for the reader of its answer for as long as that takes. False: the answer could not be written, which has been
   * said on standard error.
   */
  flushed(): Promise<boolean>;
}

export function createScreen(options: { isJson: boolean }): Screen {
  const { stdout, stderr } = process;
  const people = options.isJson ? stderr : stdout;
  const errorColours = coloursFor(stderr);
  const progress = createProgressLine(stderr, errorColours);
  let isWorking = false;
  let failure: NodeJS.ErrnoException | undefined;
  const write = (stream: NodeJS.WriteStream, text: string) => progress.around(() => stream.write(text));
  const writeLines = (stream: NodeJS.WriteStream, lines: readonly string[]) =>
    write(stream, lines.map((line) => `${rendered(line)}\n`).join(""));

  stdout.on("error", (error: NodeJS.ErrnoException) => {
    // `everbeat tasks list | head -1`: the reader has what it wanted.
    if (error.code === "EPIPE" && !isWorking) process.exit(EXIT.ok);
    failure ??= error;
  });
  stderr.on("error", () => {});

  return {
    isJson: options.isJson,
    isTerminal: people.isTTY === true,
    width: widthFor(people),
    colours: coloursFor(people),
    errorColours,
    progress,
    given: {},
    say: (line = "") => writeLines(people, [line]),
    remark: (line) => writeLines(stderr, [line]),
    answer(document, text) {
      if (options.isJson) return write(stdout, `${readableJson(JSON.stringify(document, null, 2))}\n`);
      const lines = text();
      writeLines(stdout, typeof lines === "string" ? [lines] : lines);
    },
    answerLine: (line) => write(stdout, readableJson(line)),
    outliveReaders() {
      isWorking = true;
      for (const stream of [stdout, stderr]) outletOf(stream).takeOver();
    },
    async flushed() {
      await Promise.all([outletOf(stdout).flushed(), outletOf(stderr).flushed()]);
      if (!failure || isWorking) return true;
      const words = `The answer could not be written to standard output: ${reasonOf(failure.code)}.`;
      writeLines(stderr, [`${errorColours.red("✗")} ${words}`]);
      await outletOf(stderr).flushed();
      return false;
    },
  };
}

/** What is piped is made for people too: programs have JSON. So it is as wide as COLUMNS says, or as every terminal is. */
export function widthFor(
  stream: { readonly isTTY?: boolean; readonly columns?: number },
  env: NodeJS.ProcessEnv = process.env,
): number {
  const columns = stream.isTTY ? stream.columns : Number(env["COLUMNS"]);
  return columns && Number.isInteger(columns) && columns > 0 ? columns : USUAL_WIDTH;
}

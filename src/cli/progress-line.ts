/** One line at the foot of a terminal that says what is going on; nothing at all where there is no terminal. */
import { type Colours, rendered } from "./colours.ts";
import { printable } from "./printable.ts";
import { clipToWidth } from "./text-width.ts";

export interface ProgressLine {
  show(text: string): void;
  /** Writes other lines above it. */
  around(write: () => void): void;
  clear(): void;
}

const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const FRAME_MS = 80;
const WIPE = "\r\x1b[2K";

export function createProgressLine(stream: NodeJS.WriteStream, colours: Colours): ProgressLine {
  if (!stream.isTTY || process.env["TERM"] === "dumb") return { show() {}, around: (write) => write(), clear() {} };
  let text: string | undefined;
  let frame = 0;
  let timer: NodeJS.Timeout | undefined;

  const draw = () => {
    if (text === undefined) return;
    // A line that wraps could not be wiped again.
    const room = Math.max(10, (stream.columns || 80) - 3);
    const shown = clipToWidth(text, room);
    stream.write(`${WIPE}${rendered(`${colours.cyan(FRAMES[frame % FRAMES.length] ?? "")} ${shown}`)}`);
  };
  const wipe = () => {
    if (text !== undefined) stream.write(WIPE);
  };

  return {
    show(next) {
      text = printable(next);
      timer ??= setInterval(() => {
        frame++;
        draw();
      }, FRAME_MS).unref();
      draw();
    },
    around(write) {
      wipe();
      write();
      draw();
    },
    clear() {
      wipe();
      clearInterval(timer);
      timer = undefined;
      text = undefined;
    },
  };
}

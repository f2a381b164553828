/** What is going on: one line that is rewritten at a terminal, a line per step elsewhere. */
import { msSince, nowNs } from "../process/clock.js";

export function createProgress(out = process.stderr) {
  const startedNs = nowNs();
  const clock = () => {
    const seconds = Math.floor(msSince(startedNs) / 1000);
    return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  };
  const isLive = out.isTTY === true;
  let current = "";
  const draw = () => out.write(`\r\x1b[2K${`${clock()}  ${current}`.slice(0, (out.columns ?? 80) - 1)}`);
  const timer = isLive ? setInterval(() => current && draw(), 1_000) : undefined;
  timer?.unref();
  return {
    step(text) {
      current = text;
      if (isLive) draw();
      else out.write(`${clock()}  ${text}\n`);
    },
    note(text) {
      if (isLive) out.write("\r\x1b[2K");
      out.write(`${text}\n`);
      current = "";
    },
    end() {
      clearInterval(timer);
      if (isLive) out.write("\r\x1b[2K");
    },
  };
}

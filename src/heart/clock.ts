/**
 * A clock that only ever goes forward and also runs while the machine is suspended: the one by which a process decides
 * when to stop trusting itself. (Linux's monotonic clock, and with it `performance.now()`, stands still in suspend.)
 */
import { uptime } from "node:os";

export function steadyNowMs(): number {
  return uptime() * 1_000;
}

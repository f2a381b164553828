/** One clock for all processes of a machine: Linux's monotonic one, in nanoseconds as a plain number. */
export function nowNs() {
  return Number(process.hrtime.bigint());
}

export function msSince(startNs, endNs = nowNs()) {
  return (endNs - startNs) / 1e6;
}

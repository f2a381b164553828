/** What the figures were measured on. */
import { readFileSync } from "node:fs";
import { arch, cpus, loadavg, platform, release, totalmem } from "node:os";

export function describeMachine() {
  return {
    processor: cpus()[0]?.model.trim() || processorName(),
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${platform()} ${release()} ${arch()}`,
  };
}

/** How busy the machine was with other things when a run began: to be read beside its figures. */
export function loadNow() {
  return Math.round((loadavg()[0] ?? 0) * 100) / 100;
}

function processorName() {
  return /^model name\s*:\s*(.*)$/m.exec(readFileSync("/proc/cpuinfo", "utf8"))?.[1] ?? "unknown";
}

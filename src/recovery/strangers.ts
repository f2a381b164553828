/**
 * A limit of memory may be shared with processes that are none of ours: a program beside the worker in its container, or the supervisor itself. Where the
 * kernel kills for that limit, somebody whom nobody here knows may be what grew, also if one task alone was running. Pure.
 */
import type { DeathRecord } from "../task/death.ts";
import { memoryOutlook, wantOfMemory } from "./memory-outlook.ts";

/** What a shell makes of SIGKILL. */
const KILLED_CODE = 137;

/** Whether strangers are suspects of the end of this replica. */
export function mayBeByStrangers(death: DeathRecord): boolean {
  return isForSharedMemory(death) && !death.group?.grewMost;
}

/** It was killed for a limit that it shared, and that it did not fill by itself. */
export function isForSharedMemory({ signal, exitCode, vitals, group }: DeathRecord): boolean {
  if (signal !== "SIGKILL" && exitCode !== KILLED_CODE) return false;
  const { rss, memoryLimit } = (vitals ?? {}) as Readonly<Record<string, number | undefined>>;
  const memory = rss === undefined ? undefined : memoryOutlook([{ agoMs: 0, rss, limit: memoryLimit ?? 0 }]);
  return wantOfMemory(memory, group)?.isShared === true;
}

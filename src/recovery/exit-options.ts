/** What whoever started a worker process says of its end. */
import { isBoolean, isInteger, isListOf, isOptions, orNull } from "../config/checks.ts";
import type { GroupMemory } from "../task/death.ts";
import { isReplicaId } from "../task/id-checks.ts";
import { isSignalName } from "./signal-name.ts";

export interface ExitOptions {
  exitCode?: number | null | undefined;
  signal?: string | null | undefined;
  /** It had been asked to leave, and was ended before it had left: its tasks are charged with nothing. */
  wasAsked?: boolean | undefined;
  /**
   * The memory of the cgroup that it shared with whoever saw it end, in bytes; how many processes the kernel killed there at that time; and whether this
   * one had grown more than all the others together.
   */
  group?: GroupMemory | undefined;
  /** Other replicas whose processes shared that memory: one of their tasks may have filled it. */
  sharedWith?: readonly string[] | undefined;
}

const isBytes = isInteger({ min: 0, max: Number.MAX_SAFE_INTEGER });
export const EXIT_RULES = {
  // Of a process that has ended, Node gives null for the one that does not apply.
  exitCode: orNull(isInteger({ min: 0, max: 0xffff_ffff })),
  signal: orNull(isSignalName),
  wasAsked: isBoolean,
  sharedWith: isListOf(isReplicaId),
  group: isOptions({
    ...{ used: isBytes, limit: isInteger({ min: 1, max: Number.MAX_SAFE_INTEGER }), kills: isBytes },
    grewMost: isBoolean,
  }),
};

/**
 * What a definition on record says, as far as it can be understood: another version may have written it, or somebody by hand. A
 * setting that cannot be understood counts as not given, because no task may wait for it. The default is not to repeat the task.
 */
import { type Check, isInteger, isOneOf } from "../config/checks.ts";
import { Problems } from "../config/problems.ts";
import type { RetryPolicy } from "./retry.ts";
import { isBackoff, isDelay, isShare, ON_CRASH, ON_STALL } from "./settings.ts";

export interface StoredSettings {
  readonly onCrash: (typeof ON_CRASH)[number] | undefined;
  readonly retry: RetryPolicy | undefined;
  readonly crashBudget: number | undefined;
  readonly timeoutMs: number | undefined;
  readonly stalledAfterMs: number | undefined;
  readonly onStall: (typeof ON_STALL)[number] | undefined;
}

const isCount = isInteger({ min: 1, max: 1_000_000 });
const isOnCrash = isOneOf(ON_CRASH);
const isOnStall = isOneOf(ON_STALL);

export function storedSettings(settings: unknown): StoredSettings {
  const said = fieldsOf(settings);
  return {
    onCrash: understood(said["onCrash"], isOnCrash),
    retry: storedRetry(said["retry"]),
    crashBudget: understood(said["crashBudget"], isCount),
    timeoutMs: understood(said["timeoutMs"], isDelay),
    stalledAfterMs: understood(said["stalledAfterMs"], isDelay),
    onStall: understood(said["onStall"], isOnStall),
  };
}

function storedRetry(retry: unknown): RetryPolicy | undefined {
  const said = fieldsOf(retry);
  const attempts = understood(said["attempts"], isCount);
  const backoff = understood(said["backoff"], isBackoff);
  const delayMs = understood(said["delayMs"], isDelay);
  const maxDelayMs = understood(said["maxDelayMs"], isDelay);
  const jitter = understood(said["jitter"], isShare);
  if (attempts === undefined || backoff === undefined || delayMs === undefined) return undefined;
  if (maxDelayMs === undefined || jitter === undefined) return undefined;
  return { attempts, backoff, delayMs, maxDelayMs, jitter };
}

function understood<T>(value: unknown, check: Check<T>): T | undefined {
  const problems = new Problems();
  const checked = check(value, "", problems);
  return problems.isEmpty ? checked : undefined;
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

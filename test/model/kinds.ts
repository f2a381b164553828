/** The tasks and the settings that runs are made of. Times are long, so that what really passes in a run counts for nothing. */
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery, type RecoveryOptions, type RecoverySettings } from "../../src/config/recovery-options.ts";
import { type AnyTask, defineTask, type TaskOptions } from "../../src/task/define-task.ts";
import type { SettingsName } from "./steps.ts";

export interface Kind {
  readonly task: AnyTask;
  readonly exclusive: { readonly key: string; readonly limit: number } | undefined;
}

export const LIMITED_QUEUE = { name: "limited", concurrency: 2 };

const kind = (options: TaskOptions, exclusive?: Kind["exclusive"]): Kind => ({
  task: defineTask({
    ...options,
    retry: { attempts: 3, backoff: "fixed", delay: "5s", jitter: 0 },
    run: async () => {},
  }),
  exclusive,
});

export const KINDS: readonly Kind[] = [
  kind({ name: "fails", onCrash: "fail" }),
  kind({ name: "retries", onCrash: "retry" }),
  kind({ name: "requeues", onCrash: "requeue" }),
  kind({ name: "alone", onCrash: "requeue" }, { key: "one", limit: 1 }),
  kind({ name: "in-pairs", onCrash: "fail" }, { key: "two", limit: 2 }),
  kind({ name: "limited", onCrash: "retry", queue: LIMITED_QUEUE.name }),
  kind({ name: "limited-alone", onCrash: "requeue", queue: LIMITED_QUEUE.name }, { key: "one", limit: 1 }),
];

const BASE: RecoveryOptions = {
  ...{ claimerHeartbeatInterval: "10s", runnerHeartbeatInterval: "10s", checkInterval: "5s", warnAfter: "40s" },
  ...{ claimedStaleThreshold: "100s", runningStaleThreshold: "100s", sessionGrace: "20s" },
  ...{ purgeAge: "1000s", massDeath: { hold: "300s" } },
};

const OPTIONS: { readonly [Name in SettingsName]: RecoveryOptions } = {
  usual: BASE,
  patient: { ...BASE, claimedStaleThreshold: "400s", runningStaleThreshold: "400s", sessionGrace: "80s" },
  quick: { ...BASE, claimedStaleThreshold: "30s", runningStaleThreshold: "30s", warnAfter: "25s", sessionGrace: "8s" },
  apart: { ...BASE, claimedStaleThreshold: "60s", runningStaleThreshold: "200s", sessionEvidence: false },
};

export function settingsOf(name: SettingsName): RecoverySettings {
  const problems = new Problems();
  const settings = checkRecovery(OPTIONS[name], problems);
  problems.throwIfAny("The model's settings");
  return settings;
}

/**
 * A service of a process that also runs with each notice of one kind. Notices may be missed, so it runs by itself, too: when the connection is back, from
 * time to time, and soon where no notices can come.
 */
import type { Notices, NoticeWord } from "../database/notices.ts";
import { createService, type Service, type ServiceOptions } from "./service.ts";

/** Where no notices can come, and after a run that failed: its notice has been heard. */
const UNTOLD_EVERY_MS = 2_000;

export interface NoticedServiceOptions extends Omit<ServiceOptions, "firstAfterMs" | "pauseMs"> {
  readonly notices: Notices;
  readonly word: NoticeWord;
  /** What a notice says, before the run that it leads to. False: it leads to none. */
  readonly onNotice?: (object: string) => boolean;
  /** When there is something to do by itself, though nobody tells of it. It still runs from time to time. */
  readonly dueInMs?: () => number;
}

export function createNoticedService({ notices, word, onNotice, dueInMs, ...options }: NoticedServiceOptions): Service {
  const service = createService({
    ...options,
    pauseMs: () => {
      if (service.lastRun?.error !== undefined) return UNTOLD_EVERY_MS;
      return Math.min(
        dueInMs?.() ?? Number.POSITIVE_INFINITY,
        notices.isListening ? options.intervalMs : UNTOLD_EVERY_MS,
      );
    },
  });
  let unsubscribe: (() => void)[] | undefined;
  return {
    ...service,
    start() {
      if (unsubscribe) return;
      unsubscribe = [
        notices.on(word, (object) => {
          if (onNotice?.(object) ?? true) service.trigger();
        }),
        notices.onReconnect(() => service.trigger()),
      ];
      void notices.start();
      service.start();
    },
    async stop() {
      for (const leave of unsubscribe?.splice(0) ?? []) leave();
      await service.stop();
    },
    get lastRun() {
      return service.lastRun;
    },
  };
}

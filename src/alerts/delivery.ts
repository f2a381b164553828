/**
 * Delivers changes of alerts to one channel:
 *
 *   alert raised or resolved ──▶ alert_delivery (row) ──taken for a minute──▶ channel ──▶ delivered, or due again later
 *
 * The row is written with the change. Any process that has the channel takes what is due, by locks that skip what others have. If it dies, its time
 * with the row runs out, and another one delivers it. So a change goes out at least once, and mostly once.
 */
import { changeId } from "../alert-kinds.ts";
import { clip } from "../clip.ts";
import type { AlertChannel } from "../config/alert-channels.ts";
import type { Database } from "../database/database.ts";
import type { Notices } from "../database/notices.ts";
import type { Events } from "../events.ts";
import { SERVICES } from "../services/list.ts";
import { createNoticedService } from "../services/noticed-service.ts";
import type { Service, ServiceRun } from "../services/service.ts";
import {
  type Delivery,
  nextDeliveryMs,
  noteChannel,
  noteDelivered,
  noteUndelivered,
  takeDeliveries,
} from "../sql/alert-deliveries.ts";
import { inOneLine, toErrorRecord } from "../task/error-record.ts";
import { Timer } from "../timer.ts";

/** How many are delivered to a channel side by side: one that is slow does not keep the others. */
const AT_ONCE_MOST = 10;
const DELIVERED_WITHIN_MS = 15_000;
/** Longer than that, with a margin for the statements before and after. */
const LEASE_MS = 60_000;
const LONGEST_PAUSE_MS = 600_000;
/** What is due and was not taken, somebody has locked. */
const LOCKED_PAUSE_MS = 1_000;
const LEAST_PAUSE_MS = 50;
const NOTED_EVERY_MS = 3_600_000;

export interface AlertDeliveryParts {
  readonly database: Database;
  readonly notices: Notices;
  readonly events: Events;
  readonly channel: AlertChannel;
}

export class AlertDelivery {
  readonly name = "alert delivery";
  readonly #parts: AlertDeliveryParts;
  readonly #service: Service;
  readonly #stopping = new AbortController();
  readonly #underWay = new Set<Promise<void>>();
  #notedAtMs = Number.NEGATIVE_INFINITY;
  #dueInMs = Number.POSITIVE_INFINITY;

  constructor(parts: AlertDeliveryParts) {
    this.#parts = parts;
    this.#service = createNoticedService({
      ...{ name: "alert delivery", intervalMs: SERVICES["alert delivery"].everyMs },
      ...{ notices: parts.notices, word: "alert", dueInMs: () => this.dueInMs },
      runOnce: () => this.deliverDue(),
      // The database is away, which others tell. What was taken is due again when its time has run out.
      onError: () => {},
    });
  }

  /** Until there is something to deliver, as far as the last look could see. */
  get dueInMs(): number {
    return this.#dueInMs;
  }

  get lastRun(): ServiceRun | undefined {
    return this.#service.lastRun;
  }

  /** From now on each change is on record for this channel. Where that cannot be written, nothing else waits for it: the next look tries again. */
  async start(): Promise<void> {
    await this.noteChannel().catch(() => {});
    this.#service.start();
  }

  /** What is on its way is told to stop. What was not delivered goes out from another process, or later from this one. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#service.stop();
    await Promise.all(this.#underWay);
  }

  /** Begins all that is due, so many at once. One that ends leads to the next look: its alert may be told to be over then. */
  async deliverDue(): Promise<void> {
    const { database, channel } = this.#parts;
    const noted = await this.#noteChannelIfDue().catch((error: unknown) => ({ error }));
    while (await this.#beginSome());
    const nextMs = (await nextDeliveryMs(database, channel.name)) ?? Number.POSITIVE_INFINITY;
    this.#dueInMs = nextMs > 0 ? Math.max(LEAST_PAUSE_MS, nextMs) : LOCKED_PAUSE_MS;
    if (noted?.error) throw noted.error;
  }

  /** False: nothing is due any more. */
  async #beginSome(): Promise<boolean> {
    const { database, channel } = this.#parts;
    if (this.#underWay.size >= AT_ONCE_MOST) await Promise.race(this.#underWay);
    if (this.#stopping.signal.aborted) return false;
    const limit = AT_ONCE_MOST - this.#underWay.size;
    const taken = await takeDeliveries(database, { channel: channel.name, leaseMs: LEASE_MS, limit });
    for (const delivery of taken) this.#begin(delivery);
    return taken.length > 0;
  }

  /** How it went is on record, or will be tried again when its time has run out. */
  #begin(delivery: Delivery): void {
    const ended = this.#deliver(delivery)
      .catch(() => {})
      .finally(() => {
        this.#underWay.delete(ended);
        this.#service.trigger();
      });
    this.#underWay.add(ended);
  }

  async #noteChannelIfDue(): Promise<undefined> {
    if (performance.now() - this.#notedAtMs >= NOTED_EVERY_MS) await this.noteChannel();
  }

  async noteChannel(): Promise<void> {
    await noteChannel(this.#parts.database, this.#parts.channel.name);
    this.#notedAtMs = performance.now();
  }

  async #deliver(delivery: Delivery): Promise<void> {
    const { database, events, channel } = this.#parts;
    const { alert, change, tries } = delivery;
    try {
      await this.#hand(delivery);
    } catch (error) {
      const reason = clip(inOneLine(toErrorRecord(error, "ERROR", "The channel")), 1_000, "…");
      // A process that leaves lets another one try at once.
      const againInMs = this.#stopping.signal.aborted ? 0 : pauseAfterMs(tries, Math.random());
      events.emit("alert.not-delivered", { channel: channel.name, alertId: alert.id, change, tries, reason });
      await noteUndelivered(database, channel.name, { ...delivery, error: reason, againInMs });
      return;
    }
    await noteDelivered(database, channel.name, delivery);
  }

  /** A channel that heeds no signal is left to itself when its time is over. */
  async #hand({ alert, change, tries }: Delivery): Promise<void> {
    const over = new AbortController();
    const stop = () => over.abort(new Error("the process is leaving"));
    // It was taken while the process began to leave.
    if (this.#stopping.signal.aborted) stop();
    over.signal.throwIfAborted();
    const timer = new Timer(DELIVERED_WITHIN_MS, () =>
      over.abort(new Error(`it took longer than ${DELIVERED_WITHIN_MS / 1_000} s`)),
    );
    const isOver = new Promise<never>((_, reject) => {
      over.signal.addEventListener("abort", () => reject(over.signal.reason as Error), { once: true });
    });
    this.#stopping.signal.addEventListener("abort", stop, { once: true });
    try {
      const changed = { id: changeId({ alert, change }), change, alert, tries };
      const handed = (async () => this.#parts.channel.deliver(changed, { signal: over.signal }))();
      await Promise.race([handed, isOver]);
    } finally {
      timer.stop();
      this.#stopping.signal.removeEventListener("abort", stop);
    }
  }
}

/** One second, two, four … ten minutes. Jittered, so that not everything comes at once when a receiver is back. */
export function pauseAfterMs(tries: number, random: number): number {
  return Math.min(LONGEST_PAUSE_MS, 1_000 * 2 ** Math.min(tries - 1, 20)) * (0.75 + random / 4);
}

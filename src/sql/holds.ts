/** Holds on recovery: remembered for each source of silence, so that whoever sweeps it next goes on with the same hold. */
import type { Store } from "../database/database.ts";
import { isLocked } from "../database/transient.ts";

export interface Hold {
  /** Whose deaths are held back: `hearts`, or another source by its name. */
  readonly source: string;
  /** What fell silent together, in the plural: "machines". */
  readonly counted: string;
  readonly since: Date;
  /** Somebody has said that they are dead indeed, so the next sweep acts. */
  readonly isConfirmed: boolean;
}

/** All that there are, as JSON: those who read `listening` read them in the same statement. One that was left behind is none. */
export function holdsAsJson(schema: string): string {
  return `(select coalesce(json_agg(json_build_object('source', o.source, 'counted', o.counted, 'since', o.since,
            'isConfirmed', o.confirmed_at is not null) order by o.since, o.source), '[]') from ${schema}.hold o where ${schema}.hold_lasts(o))`;
}

export interface NewHold extends Pick<Hold, "source" | "counted"> {
  /** Without another sweep of the source for so long, the hold was left behind. */
  readonly keptMs: number;
}

export interface HoldBegun {
  readonly heldForMs: number;
  readonly isConfirmed: boolean;
}

/** Begins a hold, or goes on with it. Undefined: it has to be written, and somebody keeps it locked. */
export async function beginHold(store: Store, { source, counted, keptMs }: NewHold): Promise<HoldBegun | undefined> {
  const [row] = await store.query<HoldBegun>(
    `select held_for_ms as "heldForMs", is_confirmed as "isConfirmed" from ${store.schema}.begin_hold($1, $2, $3)`,
    [source, counted, keptMs],
  );
  return row;
}

/** False: it was not held. */
export async function endHold(store: Store, source: string): Promise<boolean> {
  const rows = await store.query(`select ${store.schema}.end_hold($1)`, [source]);
  return rows.length > 0;
}

/**
 * An operator's word that the silent ones are dead indeed: of this source, or of all that are held. `locked`: those that could not be confirmed,
 * because another transaction has locked them.
 */
export async function confirmHolds(
  store: Store,
  source: string | undefined,
): Promise<{ confirmed: string[]; locked: string[] }> {
  const held = await store.query<{ source: string }>(
    `select h.source from ${store.schema}.hold h where ($1::text is null or h.source = $1) and ${store.schema}.hold_lasts(h) order by h.source`,
    [source ?? null],
  );
  const [confirmed, locked]: [string[], string[]] = [[], []];
  for (const each of held) {
    try {
      const done = await store.query(`select ${store.schema}.confirm_hold($1)`, [each.source]);
      if (done.length > 0) confirmed.push(each.source);
    } catch (error) {
      if (!isLocked(error)) throw error;
      locked.push(each.source);
    }
  }
  return { confirmed: confirmed.sort(), locked };
}

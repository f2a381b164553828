/** Holds on recovery: remembered for each source of silence, so that whoever sweeps it next goes on with the same hold. */
import type { Store } from "../database/database.ts";

export interface Hold {
  /** Whose deaths are held back: `hearts`, or another source by its name. */
  readonly source: string;
  /** What fell silent together, in the plural: "machines". */
  readonly counted: string;
  readonly since: Date;
  /** Somebody has said that they are dead indeed, so the next sweep acts. */
  readonly isConfirmed: boolean;
}

/** All that there are, as JSON: those who read `listening` read them in the same statement. */
export function holdsAsJson(schema: string): string {
  return `(select coalesce(json_agg(json_build_object('source', o.source, 'counted', o.counted, 'since', o.since,
            'isConfirmed', o.confirmed_at is not null) order by o.since, o.source), '[]') from ${schema}.hold o)`;
}

/** Returns for how long it has been held. */
export async function beginHold(
  store: Store,
  { source, counted }: Pick<Hold, "source" | "counted">,
): Promise<{ heldForMs: number; isConfirmed: boolean }> {
  const [row] = await store.query<{ heldForMs: number; isConfirmed: boolean }>(
    `select held_for_ms as "heldForMs", is_confirmed as "isConfirmed" from ${store.schema}.begin_hold($1, $2)`,
    [source, counted],
  );
  return row ?? { heldForMs: 0, isConfirmed: false };
}

/** False: it was not held. */
export async function endHold(store: Store, source: string): Promise<boolean> {
  const rows = await store.query(`select ${store.schema}.end_hold($1)`, [source]);
  return rows.length > 0;
}

/** An operator's word that the silent ones are dead indeed: of this source, or of all that are held. Returns the sources that are held. */
export async function confirmHolds(store: Store, source: string | undefined): Promise<string[]> {
  const rows = await store.query<{ source: string }>(
    `update ${store.schema}.hold set confirmed_at = clock_timestamp() where $1::text is null or source = $1 returning source`,
    [source ?? null],
  );
  return rows.map((row) => row.source).sort();
}

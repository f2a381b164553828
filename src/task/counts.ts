/** Attempts, failures and crashes are counted up to here, and no further: what an `integer` of PostgreSQL holds. */
export const MAX_COUNT = 2_147_483_647;

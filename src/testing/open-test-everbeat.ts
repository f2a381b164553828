/** An Everbeat in a schema of its own, so that tests share one database and never see each other. */
import { randomBytes } from "node:crypto";
import type pg from "pg";
import type { OpenOptions } from "../config/open-options.ts";
import { inFrame } from "../database/database.ts";
import { BEGIN } from "../database/session-settings.ts";
import { storeInTransaction } from "../database/transaction-store.ts";
import { Everbeat } from "../everbeat.ts";
import { dropSchema } from "../sql/testing.ts";

/** On DATABASE_URL or the embedded server unless told otherwise. Closing it stops its workers at once and drops the schema. */
export async function openTestEverbeat(options: Omit<OpenOptions, "schema" | "migrate"> = {}): Promise<Everbeat> {
  const schema = `everbeat_test_${randomBytes(8).toString("hex")}`;
  const everbeat = await Everbeat.open({ log: "silent", poolSize: 5, ...options, schema });
  const close = everbeat.close.bind(everbeat);
  let closed: Promise<void> | undefined;
  // Workers must be gone before the schema is, and the pool goes with the workers: hence a connection outside of it.
  const closeAndDrop = async (closeOptions: { now?: boolean }) => {
    const client = await everbeat.database.dedicated();
    try {
      await close(closeOptions);
      await dropWith(client, everbeat.database.schema);
    } finally {
      await client.end();
    }
  };
  everbeat.close = (closeOptions = { now: true }) => {
    closed ??= closeAndDrop(closeOptions);
    return closed;
  };
  return everbeat;
}

function dropWith(client: pg.Client, schema: string): Promise<void> {
  return inFrame({ client, frame: BEGIN }, () => dropSchema(storeInTransaction(client, schema)));
}

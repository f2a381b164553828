/** From what the caller gave, or nothing, to a database: the caller's pool, an address, or the embedded server. */
import { join } from "node:path";
import type pg from "pg";
import type { OpenSettings } from "../config/open-options.ts";
import { callersConnections, ownConnections } from "./connections.ts";
import { createDatabase, type Database } from "./database.ts";
import { explainMissing } from "./explain-missing.ts";
import { parseTargets, type Targets } from "./targets.ts";

export async function openDatabase(settings: OpenSettings): Promise<Database> {
  const given = settings.database ?? nonEmpty(process.env["DATABASE_URL"]);
  if (given === undefined) return openEmbedded(settings);
  if (isPool(given)) return createDatabase(callersConnections(given), settings.schema, explainMissing);
  return createDatabase(
    ownConnections(parseTargets(given), { max: settings.poolSize }),
    settings.schema,
    explainMissing,
  );
}

export function embeddedFolder(folder: string | undefined): string {
  return folder ?? nonEmpty(process.env["EVERBEAT_FOLDER"]) ?? join(process.cwd(), ".everbeat");
}

async function openEmbedded(settings: OpenSettings): Promise<Database> {
  // Loaded only here: a worker with a database of its own never pays for it.
  const { joinEmbeddedServer } = await import("./embedded/embedded-server.ts");
  const server = await joinEmbeddedServer({
    folder: embeddedFolder(settings.folder),
    ...(settings.onProgress ? { onProgress: settings.onProgress } : {}),
  });
  const targets: Targets = {
    get urls() {
      return [server.url];
    },
    role: "any",
  };
  const database = createDatabase(ownConnections(targets, { max: settings.poolSize }), settings.schema, explainMissing);
  return {
    ...database,
    async close() {
      await database.close();
      await server.close();
    },
  };
}

function isPool(given: OpenSettings["database"]): given is pg.Pool {
  return typeof (given as pg.Pool | undefined)?.connect === "function";
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}

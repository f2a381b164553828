/** A role with the rights that docs/database.md grants to the one that works and enqueues, and no others. */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { onTestFinished } from "vitest";
import type { TestDatabase } from "./database.ts";

const PAGE = new URL("../../docs/database.md", import.meta.url);

export interface DocumentedRole {
  readonly name: string;
  readonly url: string;
}

/** Gone after the test. Once the schema is there: it is granted what the schema has. */
export async function createDocumentedRole(database: TestDatabase): Promise<DocumentedRole> {
  const name = `app_${randomBytes(6).toString("hex")}`;
  await database.query(`create role ${name} login password 'app'`);
  onTestFinished(async () => void (await database.query(`drop owned by ${name}; drop role ${name}`)));
  // What everybody may do by default, an administrator may have taken back.
  await database.query(`
    revoke all on database ${database.name} from public;
    grant connect on database ${database.name} to ${name};
    revoke all on all routines in schema everbeat from public`);
  await database.query(documentedGrants().replaceAll(" to app;", ` to ${name};`));
  const url = new URL(database.url);
  url.username = name;
  url.password = "app";
  return { name, url: url.href };
}

function documentedGrants(): string {
  const [, grants] = /^### Rights\n.*?```sql\n(.*?)```/ms.exec(readFileSync(PAGE, "utf8")) ?? [];
  if (!grants?.includes(" to app;")) throw new Error(`${PAGE.pathname} grants nothing to "app" under "Rights"`);
  return grants;
}

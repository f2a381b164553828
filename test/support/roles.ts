/** A role of the test's own, which may do what it likes in the test's database, with the settings that somebody has made for it. */
import { onTestFinished } from "vitest";
import type { TestDatabase } from "./database.ts";

export interface TestRole {
  readonly role: string;
  /** The database's, for this role. */
  readonly url: string;
}

/** Gone when the test is over, with everything that it owns: what uses it must be closed by then, so it is made first. */
export async function createRole(
  { name, url, query }: TestDatabase,
  settings: Readonly<Record<string, string>> = {},
): Promise<TestRole> {
  const role = `${name}_role`;
  await query(`create role ${role} login password 'role'`);
  onTestFinished(async () => {
    await query(`drop owned by ${role} cascade`);
    await query(`drop role ${role}`);
  });
  await query(`grant all on database ${name} to ${role}`);
  for (const [setting, value] of Object.entries(settings)) await query(`alter role ${role} set ${setting} = ${value}`);
  const address = new URL(url);
  address.username = role;
  address.password = "role";
  return { role, url: address.href };
}

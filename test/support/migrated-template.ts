/** A database with our schema and nothing else in it, for tests to copy: that takes a third of what it takes to migrate. */
import { randomBytes } from "node:crypto";
import pg from "pg";
import { Everbeat } from "../../src/everbeat.ts";

/** Returns its name. Nobody stays connected to it, since it could not be copied then. */
export async function createMigratedTemplate(serverUrl: string): Promise<string> {
  const name = newDatabaseName();
  await onServer(serverUrl, `create database ${name}`);
  const everbeat = await Everbeat.open({ database: urlOfDatabase(serverUrl, name), log: "silent" });
  await everbeat.close();
  return name;
}

export function newDatabaseName(): string {
  return `test_${randomBytes(6).toString("hex")}`;
}

export function urlOfDatabase(serverUrl: string, name: string): string {
  const address = new URL(serverUrl);
  address.pathname = `/${name}`;
  return address.href;
}

export async function onServer(serverUrl: string, ...statements: string[]): Promise<void> {
  const client = new pg.Client(serverUrl);
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

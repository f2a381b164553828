/** One real PostgreSQL for all test files; each file makes databases of its own in it. */
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { joinEmbeddedServer, stopEmbeddedServer } from "../../src/database/embedded/embedded-server.ts";
import { createMigratedTemplate, onServer } from "./migrated-template.ts";

declare module "vitest" {
  interface ProvidedContext {
    serverUrl: string;
    /** The name of a database on it that has our schema and nothing else. */
    migratedTemplate: string;
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const given = process.env["EVERBEAT_TEST_DATABASE_URL"];
  const server = given ? { url: given, stop: async () => {} } : await startServer();
  const template = await createMigratedTemplate(server.url);
  project.provide("serverUrl", server.url);
  project.provide("migratedTemplate", template);
  return async () => {
    await onServer(server.url, `drop database ${template}`);
    await server.stop();
  };
}

async function startServer(): Promise<{ url: string; stop: () => Promise<void> }> {
  const root = await mkdtemp(join(tmpdir(), "everbeat-test-"));
  // Open to the server's user, so that the data is in there, and goes with it.
  await chmod(root, 0o755);
  const folder = join(root, ".everbeat");
  const server = await joinEmbeddedServer({ folder });
  // Only a machine that fails would lose something by it. Servers that tests kill are others, and wait for their disk.
  // By its port: tests put proxies and poolers in between.
  const url = server.tcpUrl;
  if (url === undefined) throw new Error("a new server had no port of its own");
  await onServer(url, "alter system set fsync = off", "select pg_reload_conf()");
  return {
    url,
    async stop() {
      await server.close();
      // Not left to its keeper, which would find its folder gone.
      await stopEmbeddedServer(folder);
      await rm(root, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
    },
  };
}

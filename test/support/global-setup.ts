/** One real PostgreSQL for all test files; each file makes databases of its own in it. */
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { joinEmbeddedServer, stopEmbeddedServer } from "../../src/database/embedded/embedded-server.ts";

declare module "vitest" {
  interface ProvidedContext {
    serverUrl: string;
  }
}

export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const given = process.env["EVERBEAT_TEST_DATABASE_URL"];
  if (given) {
    project.provide("serverUrl", given);
    return undefined;
  }
  const folder = await mkdtemp(join(tmpdir(), "everbeat-test-"));
  // Open to the server's user, so that the data is in there, and goes with it.
  await chmod(folder, 0o755);
  const server = await joinEmbeddedServer({ folder: join(folder, ".everbeat") });
  project.provide("serverUrl", server.url);
  return async () => {
    await server.close();
    // Not left to its keeper, which would find its folder gone.
    await stopEmbeddedServer(join(folder, ".everbeat"));
    await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
  };
}

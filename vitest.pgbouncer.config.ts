import { defineConfig } from "vitest/config";

/** A suite of its own: it installs Debian's pgbouncer where it is missing. */
export default defineConfig({
  test: {
    include: ["test/pgbouncer/**/*.test.ts"],
    globalSetup: ["test/support/global-setup.ts"],
    pool: "forks",
    testTimeout: 60_000,
    hookTimeout: 180_000,
  },
});

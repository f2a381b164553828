import { defineConfig } from "vitest/config";

/** Distributions and long runs: `npm run test:kills`. */
export default defineConfig({
  test: {
    include: ["test/kills/**/*.test.ts"],
    globalSetup: ["test/support/global-setup.ts"],
    pool: "forks",
    fileParallelism: false,
    testTimeout: 900_000,
    hookTimeout: 60_000,
  },
});

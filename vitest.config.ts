import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/{unit,database,crash,cli,package,debian}/**/*.test.ts"],
    globalSetup: ["test/support/global-setup.ts"],
    pool: "forks",
    maxWorkers: 3,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});

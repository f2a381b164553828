import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/{unit,database,crash,cli,package,debian}/**/*.test.ts"],
    globalSetup: ["test/support/global-setup.ts"],
    pool: "forks",
    maxWorkers: 3,
    // Processes that are killed, stopped and cut off on a machine that has other work too: once more before it counts.
    retry: process.env["CI"] ? 1 : 0,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});

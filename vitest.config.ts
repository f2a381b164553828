import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/{unit,database,cli,model,promises,crash,embedded,package,debian}/**/*.test.ts"],
    globalSetup: ["test/support/global-setup.ts"],
    pool: "forks",
    maxWorkers: 3,
    // A test that fails now and then is a defect, of the test or of what it tests.
    retry: 0,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});

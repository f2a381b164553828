import { defineConfig } from "vitest/config";

/** A suite of its own: it mounts small disks and fills them, which takes root. */
export default defineConfig({
  test: {
    include: ["test/disk/**/*.test.ts"],
    pool: "forks",
    fileParallelism: false,
    testTimeout: 240_000,
    hookTimeout: 60_000,
  },
});

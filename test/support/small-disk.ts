/** A disk of a few megabytes that a test can fill and clear; only root can mount it. */
import { execFile } from "node:child_process";
import { chmod, mkdtemp, open, rm, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";

const run = promisify(execFile);
const BLOCK = Buffer.alloc(65_536, "x");

export interface SmallDisk {
  readonly folder: string;
  /** Takes all the room that is left, to the last page. */
  fill(): Promise<void>;
  clear(): Promise<void>;
}

export async function mountSmallDisk(megabytes: number): Promise<SmallDisk> {
  const folder = await mkdtemp(join(tmpdir(), "everbeat-disk-"));
  await run("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", folder]);
  onTestFinished(async () => {
    await run("umount", ["--lazy", folder]);
    await rmdir(folder);
  });
  await chmod(folder, 0o777);
  const filler = join(folder, "filler");
  return {
    folder,
    async fill() {
      const file = await open(filler, "a");
      try {
        for (const block of [BLOCK, BLOCK.subarray(0, 4_096), BLOCK.subarray(0, 1)]) while (await fits(file, block));
      } finally {
        await file.close();
      }
    },
    clear: () => rm(filler),
  };
}

async function fits(file: Awaited<ReturnType<typeof open>>, block: Buffer): Promise<boolean> {
  try {
    return (await file.write(block)).bytesWritten === block.length;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOSPC") return false;
    throw error;
  }
}

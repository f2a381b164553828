/** A real pipe, both ends of which a test holds: its reader takes what the test says, when the test says so. */
import { execFileSync } from "node:child_process";
import { closeSync, constants, mkdtempSync, openSync, readSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

export interface Pipe {
  /** Where the writer writes. It never waits for the reader. */
  readonly writeEnd: number;
  /** All that is in the pipe now. */
  read(): string;
  /** The reader goes away, and may come back. */
  closeReader(): void;
  openReader(): void;
}

const MOST = 1_048_576;

export function openPipe(): Pipe {
  const folder = mkdtempSync(join(tmpdir(), "everbeat-pipe-"));
  const path = join(folder, "pipe");
  execFileSync("mkfifo", [path]);
  let readEnd: number | undefined;
  const openReader = () => {
    readEnd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  };
  const closeReader = () => {
    if (readEnd !== undefined) closeSync(readEnd);
    readEnd = undefined;
  };
  openReader();
  const writeEnd = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
  onTestFinished(() => {
    closeReader();
    closeSync(writeEnd);
    rmSync(folder, { recursive: true });
  });
  return { writeEnd, read: () => readAll(readEnd as number), closeReader, openReader };
}

function readAll(fd: number): string {
  const chunks: Buffer[] = [];
  for (;;) {
    const chunk = Buffer.alloc(MOST);
    try {
      const length = readSync(fd, chunk);
      if (length === 0) break;
      chunks.push(chunk.subarray(0, length));
    } catch (error) {
      // Nothing more is in it.
      if ((error as NodeJS.ErrnoException).code === "EAGAIN") break;
      throw error;
    }
  }
  return Buffer.concat(chunks).toString();
}

/**
 * When a replica's heart was last heard by the database, for its runners to read: eight bytes in a file without a name, whose
 * descriptor they inherit. A replica that is stopped altogether cannot tell its runners anything; this they see all the same.
 */
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Lease {
  readonly fd: number;
  /** For runners, which only read: a handler that writes to each descriptor that it finds must not renew it. */
  readonly readFd: number;
  close(): void;
}

export function openLease(): Lease {
  const folder = mkdtempSync(join(tmpdir(), "everbeat-lease-"));
  const fd = openSync(join(folder, "lease"), "wx", 0o600);
  const readFd = openSync(join(folder, "lease"), "r");
  rmSync(folder, { recursive: true, force: true });
  return {
    ...{ fd, readFd },
    close() {
      closeSync(fd);
      closeSync(readFd);
    },
  };
}

/** By the steady clock, which all of a machine's processes share. */
export function renewLease(fd: number, heardAtMs: number): void {
  writeSync(fd, new Float64Array([heardAtMs]), 0, 8, 0);
}

/** Undefined where it was never renewed. */
export function readLease(fd: number): number | undefined {
  const value = new Float64Array(1);
  return readSync(fd, value, 0, 8, 0) === 8 ? value[0] : undefined;
}

/** Amounts of memory as people write them: bytes, or "512MB", "2GB". */
import { type Check, describe } from "./checks.ts";

export type MemorySize = number | `${number}${"MB" | "GB"}`;

const UNIT_BYTES = { MB: 1_048_576, GB: 1_073_741_824 } as const;

/** Comes out in bytes. */
export function isMemorySize(range: { min: number }): Check<number> {
  return (value, path, problems) => {
    const bytes = memoryBytes(value);
    if (bytes !== undefined && bytes >= range.min) return bytes;
    const least = `${range.min / UNIT_BYTES.MB}MB`;
    problems.add(
      path,
      `must be an amount of memory of at least ${least}, such as "512MB" or "2GB", not ${describe(value)}`,
    );
    return undefined;
  };
}

function memoryBytes(value: unknown): number | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? Math.floor(value) : undefined;
  const match = typeof value === "string" ? /^(\d+(?:\.\d+)?)\s*(MB|GB)$/i.exec(value.trim()) : null;
  if (!match) return undefined;
  return Math.floor(Number(match[1]) * UNIT_BYTES[match[2]?.toUpperCase() as keyof typeof UNIT_BYTES]);
}

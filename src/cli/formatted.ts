/** A count as people read it: 12,345. */
export function formatted(count: number): string {
  return count.toLocaleString("en");
}

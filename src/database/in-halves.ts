/**
 * Does something with many values at once. If it fails because of some of them, it is done with one half and then with the other half, until the
 * value with which it fails is alone. So one value does not hold up the others.
 */
import { isAboutTheValues } from "./transient.ts";

export async function inHalves<T, R>(
  all: readonly T[],
  act: (part: readonly T[]) => Promise<readonly R[]>,
  onRefused: (one: T, error: unknown) => Promise<readonly R[]>,
  isAboutSome: (error: unknown) => boolean = isAboutTheValues,
): Promise<readonly R[]> {
  const [first] = all;
  if (first === undefined) return [];
  try {
    return await act(all);
  } catch (error) {
    if (!isAboutSome(error)) throw error;
    if (all.length === 1) return onRefused(first, error);
  }
  const middle = Math.ceil(all.length / 2);
  const done = await inHalves(all.slice(0, middle), act, onRefused, isAboutSome);
  return [...done, ...(await inHalves(all.slice(middle), act, onRefused, isAboutSome))];
}

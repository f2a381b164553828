/** Words that the explanations share. */

/** "1 attempt", "2 crashes". */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

export function triesWords(tries: { attempt: number; failures: number; crashes: number }): string {
  const { attempt, failures, crashes } = tries;
  return `${counted(attempt, "attempt")}, ${counted(failures, "failure")}, ${counted(crashes, "crash", "crashes")}`;
}

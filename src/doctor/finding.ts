/** What one check found, and what to do about it. */
export interface Finding {
  readonly check: string;
  readonly mark: "good" | "warning" | "wrong" | "skipped";
  readonly found: string;
  readonly advice?: string;
}

export function good(check: string, found: string): Finding {
  return { check, mark: "good", found };
}

export function skipped(check: string, because: string): Finding {
  return { check, mark: "skipped", found: `not checked: ${because}` };
}

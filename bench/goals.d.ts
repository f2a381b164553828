export interface GoalLine {
  readonly what: string;
  readonly verdict: "reached" | "MISSED" | "unknown";
  readonly why?: string;
  readonly ratio?: { readonly median: number; readonly min: number; readonly max: number; readonly rounds: number };
}

/** The goals of what was measured, with their lines. */
export function judge(results: { measures: Record<string, unknown> }): readonly {
  readonly id: string;
  readonly title: string;
  readonly goal: string;
  readonly lines: readonly GoalLine[];
}[];

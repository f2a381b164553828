/** How states look: told apart by shape and by colour, so that neither is needed. */
import type { AttemptOutcome, TaskState } from "../task/states.ts";
import type { Colours } from "./colours.ts";

type Colour = "green" | "red" | "yellow" | "cyan" | "blue" | "dim";
type Shown =
  | TaskState
  | AttemptOutcome
  | "online"
  | "draining"
  | "offline"
  | "dead"
  | "missing"
  | "unheard"
  | "paused"
  | "open";

const LOOKS: Record<Shown, { readonly mark: string; readonly colour: Colour }> = {
  pending: { mark: "○", colour: "blue" },
  claimed: { mark: "◐", colour: "cyan" },
  running: { mark: "●", colour: "cyan" },
  completed: { mark: "✓", colour: "green" },
  failed: { mark: "✗", colour: "red" },
  cancelled: { mark: "⊘", colour: "dim" },
  expired: { mark: "◌", colour: "dim" },
  snoozed: { mark: "◷", colour: "blue" },
  crashed: { mark: "✗", colour: "red" },
  aborted: { mark: "⊘", colour: "yellow" },
  taken: { mark: "↩", colour: "yellow" },
  online: { mark: "●", colour: "green" },
  draining: { mark: "◐", colour: "yellow" },
  offline: { mark: "○", colour: "dim" },
  dead: { mark: "✗", colour: "red" },
  missing: { mark: "✗", colour: "red" },
  unheard: { mark: "?", colour: "yellow" },
  paused: { mark: "‖", colour: "yellow" },
  open: { mark: "▸", colour: "green" },
};

export function marked(state: Shown, label: string = state): string {
  return `${LOOKS[state].mark} ${label}`;
}

export function inColourOf(state: Shown, text: string, colours: Colours): string {
  return colours[LOOKS[state].colour](text);
}

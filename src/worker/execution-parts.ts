/** What running a handler takes besides the task itself. */
import type { Events } from "../events.ts";
import type { Deadlines } from "../heart/deadlines.ts";
import type { Logger } from "../log.ts";
import type { HandlerScopes } from "../runner/handler-scopes.ts";
import type { Runners } from "../runner/runners.ts";
import type { Middleware } from "../task/context.ts";
import type { ReplicaId } from "../task/ids.ts";
import type { Reporting } from "./reports.ts";

export interface ExecutionParts {
  readonly schema: string;
  readonly replica: { readonly id: ReplicaId };
  readonly log: Logger;
  readonly events: Pick<Events, "emit">;
  readonly middleware: readonly Middleware[];
  readonly resultLimitBytes: number;
  /** How long a handler may take to stop once its signal has fired. */
  readonly abortGraceMs: number;
  readonly scopes: HandlerScopes;
  /** Where tasks run that do not run here. */
  readonly runners?: Runners;
  readonly reporting: Reporting;
  readonly deadlines: Deadlines;
  /** A handler has told its own worker to stop. */
  readonly onOwnStop?: () => void;
}

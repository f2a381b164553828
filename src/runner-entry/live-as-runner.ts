/** A runner's life, in a thread or a process: loads its tasks, says that it is ready, and serves until it is told to leave. */
import { carryError, reviveError } from "../runner/carried-error.ts";
import { openHandlerScopes } from "../runner/handler-scopes.ts";
import { markAsRunner } from "../runner/inside-runner.ts";
import { encodeSealed, type FromRunner, type RunnerCharge, type ToRunner } from "../runner/protocol.ts";
import { JobServer, type ServeParts } from "../runner/serve-jobs.ts";
import { loadTasks } from "./load-tasks.ts";
import { DroppedLines, takeOverPrinting } from "./take-over-printing.ts";

export interface RunnerLife {
  hear(message: ToRunner): void;
  /** The replica is dead. */
  abandon(): void;
}

export interface RunnerLifeParts {
  /** Says what is sealed already. */
  readonly send: (sealed: string) => void;
  readonly unread: () => number;
  readonly memory: () => number;
  readonly leftProcesses: ServeParts["leftProcesses"];
  /** From here on it beats. */
  readonly onBegin: (charge: RunnerCharge, seal: string) => void;
  /** Whether what it runs must be over when its replica's lease is. */
  readonly onMustStop: (mustStop: boolean) => void;
  readonly leave: () => void;
  /** Its handler was told to stop and did not. Before it exits it says its last words, which takes a moment at the most. */
  readonly end: (sayLast: () => Promise<void>) => void;
}

export function liveAsRunner(parts: RunnerLifeParts): RunnerLife {
  const { send, unread, memory, leftProcesses, onBegin, onMustStop, leave, end } = parts;
  let server: JobServer | undefined;
  let dropped: DroppedLines | undefined;
  markAsRunner();
  takeOverPrinting();

  async function begin({ charge, seal }: ToRunner & { type: "begin" }): Promise<void> {
    const say = (message: FromRunner) => send(encodeSealed(seal, message));
    onBegin(charge, seal);
    dropped = new DroppedLines(say);
    try {
      const tasks = await loadTasks(charge);
      const scopes = openHandlerScopes();
      server = new JobServer({ charge, tasks, send: say, unread, memory, leftProcesses, scopes });
      say({ type: "ready" });
    } catch (error) {
      say({ type: "failed", error: carryError(error) });
    }
  }

  async function run(message: ToRunner & { type: "run" }): Promise<void> {
    onMustStop(message.mustStop);
    await server?.run(message);
    onMustStop(false);
  }

  const sayLast = async (withinMs: number) => dropped?.sayLast(withinMs);

  return {
    hear(message) {
      if (message.type === "begin") void begin(message);
      else if (message.type === "run") void run(message);
      else if (message.type === "abort") server?.abort(message.job, message.item, reviveError(message.reason));
      else if (message.type === "leave") void sayLast(message.withinMs).then(leave);
      else if (message.type === "end") end(() => sayLast(message.withinMs));
    },
    abandon: () => server?.abandon(),
  };
}

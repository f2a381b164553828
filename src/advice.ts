/** Advice as data: a sentence, and where an operation does what it says, that with its input. Each front makes its own of it: a line to type, a request. */

interface Nothing {
  readonly [key: string]: never;
}
interface ToTasks {
  readonly ids: string[];
}

/** The operations that are advised, each with the input that it is advised with (test/unit/advice.test.ts compares it with the schema). */
export interface Advised {
  "tasks.cancel": ToTasks;
  "tasks.retry": ToTasks;
  "tasks.explain": { readonly id: string };
  "tasks.list": { readonly state: "running"; readonly queue?: string; readonly replicaId?: string };
  "queues.resume": { readonly name: string };
  /** Null takes the limit away. */
  "queues.set": { readonly name: string; readonly concurrency?: null; readonly rateLimit?: null };
  "replicas.list": Nothing;
  /** Of one source of silence, or of all that are held. */
  "recovery.confirm": { readonly source?: string };
  "recovery.recover": {
    readonly state?: "claimed" | "running";
    readonly replicaId?: string;
    /** In milliseconds. */
    readonly after?: number;
    readonly dryRun?: true;
  };
  "recovery.stale": { readonly replicaId?: string };
  "review.mark": ToTasks;
  "schema.migrate": Nothing;
  doctor: Nothing;
  "post-mortems.list": Nothing;
  /** The number of a post-mortem, or the id of what it is about. */
  "post-mortems.show": { readonly of: string };
}
export type AdvisedOperation = keyof Advised;

export type AdvisedCall = {
  [Name in AdvisedOperation]: { readonly operation: Name; readonly input: Advised[Name] };
}[AdvisedOperation];

/** What starts a worker, which no operation does. The command line adds where its database is. */
export const START_COMMAND = "everbeat start tasks.ts";

/** What no operation does, such as starting a worker, is words only. */
interface InWords {
  readonly operation?: never;
  readonly input?: never;
}

export type Advice = { readonly sentence: string } & (AdvisedCall | InWords);

export function advise<Name extends AdvisedOperation>(sentence: string, operation: Name, input: Advised[Name]): Advice {
  return { sentence, operation, input } as { sentence: string } & AdvisedCall;
}

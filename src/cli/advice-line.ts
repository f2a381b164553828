/** Advice as it is typed: the command line for an operation and its input. Pure. */
import type { Advice, Advised, AdvisedCall, AdvisedOperation } from "../advice.ts";
import { formatDuration } from "../config/duration.ts";
import type { GlobalOptions } from "./command.ts";
import { quoted, typedCommand } from "./typed-command.ts";

type Words = readonly string[];

/** The compiler asks for the command of each operation that is advised. */
const COMMANDS: { readonly [Name in AdvisedOperation]: (input: Advised[Name]) => Words } = {
  "tasks.cancel": ({ ids }) => ["tasks", "cancel", ...ids],
  "tasks.retry": ({ ids }) => ["tasks", "retry", ...ids],
  "tasks.explain": ({ id }) => ["explain", id],
  "tasks.list": ({ state, queue, replicaId }) => [
    ...["tasks", "list", "--state", state],
    ...option("queue", queue),
    ...option("replica", replicaId),
  ],
  "queues.resume": ({ name }) => ["queues", "resume", name],
  "queues.set": ({ name, concurrency, rateLimit }) => [
    ...["queues", "set", name],
    ...option("concurrency", concurrency === null ? "none" : undefined),
    ...option("rate-limit", rateLimit === null ? "none" : undefined),
  ],
  "replicas.list": () => ["replicas"],
  "recovery.confirm": ({ source }) => ["recover", "--confirm", ...(source === undefined ? [] : [source])],
  "recovery.recover": ({ state, replicaId, after, dryRun }) => [
    "recover",
    ...(state === undefined ? [] : [`--${state}`]),
    ...option("replica", replicaId),
    ...option("after", after === undefined ? undefined : formatDuration(after)),
    ...(dryRun === undefined ? [] : ["--dry-run"]),
  ],
  "recovery.stale": ({ replicaId }) => ["stale", ...option("replica", replicaId)],
  "review.mark": ({ ids }) => ["tasks", "review", ...ids, "--done"],
  "schema.migrate": () => ["migrate"],
  doctor: () => ["doctor"],
  "post-mortems.list": () => ["post-mortems"],
  "post-mortems.show": ({ of }) => ["post-mortem", of],
};

/** `given`: what the command was given that prints it. */
export function adviceLine({ operation, input }: AdvisedCall, given: GlobalOptions): string {
  const words = (COMMANDS[operation] as (given: typeof input) => Words)(input);
  return typedCommand(words.map(quoted).join(" "), given);
}

/** Undefined: what it says is not done by a command of ours. */
export function lineOf(advice: Advice, given: GlobalOptions): string | undefined {
  return advice.operation === undefined ? undefined : adviceLine(advice, given);
}

function option(name: string, value: string | undefined): Words {
  return value === undefined ? [] : [`--${name}`, value];
}

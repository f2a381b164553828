/** `everbeat queues set`: limits of a queue, which hold for all replicas together. */
import { type Command, InvalidArgumentError } from "commander";
import type { QueueOptions } from "../../queue/queue-orders.ts";
import { asRate, wholeNumber } from "../arguments.ts";
import { changeQueue } from "../change-queue.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { UsageError } from "../errors.ts";

/** "none" stays a word until the end: the parser takes null for an option without a value. */
interface SetOptions {
  readonly concurrency?: number | "none";
  readonly rateLimit?: Rate | "none";
}

type Rate = NonNullable<QueueOptions["rateLimit"]>;

export function addQueuesSet(cli: Cli, parent: Command): void {
  addCommand<SetOptions>(cli, parent, {
    usage: "set <name>",
    description: "limit a queue, over all replicas together",
    examples: [
      "everbeat queues set mail --concurrency 5",
      "everbeat queues set mail --rate-limit 100/1s",
      "everbeat queues set mail --concurrency none --rate-limit none",
    ],
    configure(command) {
      command
        .option("--concurrency <number>", 'how many run at once, or "none" for any number', concurrency)
        .option("--rate-limit <starts/duration>", 'how many start per time, as in 100/1s, or "none"', rate);
    },
    run: setQueue,
  });
}

async function setQueue(call: Call<SetOptions>): Promise<undefined> {
  const { concurrency: atOnce, rateLimit: perTime } = call.options;
  if (atOnce === undefined && perTime === undefined)
    throw new UsageError("Nothing is set. Give --concurrency, --rate-limit or both.");
  return changeQueue(call, "queues.set", {
    ...(atOnce === undefined ? {} : { concurrency: atOnce === "none" ? null : atOnce }),
    ...(perTime === undefined ? {} : { rateLimit: perTime === "none" ? null : perTime }),
  });
}

function concurrency(text: string): number | "none" {
  return text === "none" ? text : wholeNumber({ min: 0, max: 1_000_000 })(text);
}

function rate(text: string): Rate | "none" {
  if (text === "none") return text;
  const given = asRate(text);
  if (given === undefined)
    throw new InvalidArgumentError('It must be a number of starts per time, as in "100/1s" or "10/m", or "none".');
  return { limit: wholeNumber({ min: 1, max: 1_000_000 })(String(given.limit)), per: given.per };
}

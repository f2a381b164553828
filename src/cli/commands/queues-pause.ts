/** `everbeat queues pause`: no task of the queue is started until it is resumed. */
import type { Command } from "commander";
import { changeQueue } from "../change-queue.ts";
import { addCommand, type Cli } from "../command.ts";

export function addQueuesPause(cli: Cli, parent: Command): void {
  addCommand(cli, parent, {
    usage: "pause <name>",
    description: "start no more tasks of this queue; what is running goes on",
    examples: ["everbeat queues pause mail"],
    run: (call) => changeQueue(call, "queues.pause", {}),
  });
}

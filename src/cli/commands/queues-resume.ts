/** `everbeat queues resume`: a paused queue goes on. */
import type { Command } from "commander";
import { changeQueue } from "../change-queue.ts";
import { addCommand, type Cli } from "../command.ts";

export function addQueuesResume(cli: Cli, parent: Command): void {
  addCommand(cli, parent, {
    usage: "resume <name>",
    description: "start tasks of this queue again",
    examples: ["everbeat queues resume mail"],
    run: (call) => changeQueue(call, "queues.resume", {}),
  });
}

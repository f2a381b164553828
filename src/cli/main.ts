#!/usr/bin/env node
/** The `everbeat` command. */
import { Terminal } from "../terminal.ts";
import { runCli } from "./run-cli.ts";

const terminal = new Terminal();
process.on("exit", () => terminal.letGo());

const exitCode = await runCli(process.argv.slice(2));
// What could be written is (see flushed). It is ended outright, because a tasks file may leave timers and connections of its own behind.
process.exit(exitCode);

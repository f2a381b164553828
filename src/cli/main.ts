#!/usr/bin/env node
/** The `everbeat` command. */
import { runCli } from "./run-cli.ts";

const exitCode = await runCli(process.argv.slice(2));
// Flushed first, then ended outright: a tasks file may leave timers and connections of its own behind.
process.stdout.write("", () => process.exit(exitCode));

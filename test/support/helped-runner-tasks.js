// The same handlers in a runner whose module starts a program when it is loaded, which it keeps.
import { spawn } from "node:child_process";

spawn("sleep", ["600"], { stdio: "ignore" }).unref();

export * from "./runner-tasks.js";

// The same handlers in a runner that puts things in order for longer than it is given when it is told to end by SIGTERM.
process.on("SIGTERM", () => {});

export * from "./runner-tasks.js";

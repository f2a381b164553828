import { describe, expect, test } from "vitest";
import { allCommands } from "../support/commands.ts";
import { everbeat, everbeatJson } from "./run-cli.ts";
import { everbeatHere } from "./run-here.ts";

describe("help", () => {
  test("is shown where nothing is asked for, and that is no failure", async () => {
    const { code, stdout, stderr } = await everbeat([]);
    expect(code).toBe(0);
    expect(stderr).toBe("");
    for (const [command = ""] of allCommands()) expect(stdout).toMatch(new RegExp(`^  ${command}\\b`, "m"));
  });

  test.each(allCommands().map((words) => [words.join(" "), words] as const))(
    "of %s has examples and the options of all",
    async (name, words) => {
      const { code, stdout } = await everbeatHere([...words, "--help"]);
      expect(code).toBe(0);
      expect(stdout).toContain(`Usage: everbeat ${name}`);
      expect(stdout).toMatch(/Examples:\n {2}everbeat /);
      for (const option of ["--database <url>", "--schema <name>", "--json"]) expect(stdout).toContain(option);
    },
  );

  test("has no colour in a pipe, and none where it was declined", async () => {
    expect((await everbeat(["--help"])).stdout).not.toContain("\x1b[");
    expect((await everbeat(["--help"], { env: { FORCE_COLOR: "1" } })).stdout).toContain("\x1b[");
    expect((await everbeat(["--help"], { env: { NO_COLOR: "1" } })).stdout).not.toContain("\x1b[");
  });
});

test("the version is that of the package", async () => {
  const { code, stdout } = await everbeat(["--version"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
});

describe("wrong usage exits with 2 and says what was meant", () => {
  test.each<[string, string[], RegExp]>([
    ["an unknown command", ["taks"], /Unknown command 'taks' \(Did you mean tasks\?\)/],
    ["an unknown command in a group", ["tasks", "lst"], /Unknown command 'lst' \(Did you mean list\?\)/],
    [
      "an unknown command of queues",
      ["queues", "puase", "mail"],
      /Unknown command 'queues puase'. Did you mean pause\?/,
    ],
    ["an unknown option", ["tasks", "list", "--sate", "failed"], /Unknown option '--sate' \(Did you mean --state\?\)/],
    ["a missing argument", ["start"], /Missing required argument 'tasks-file'/],
    ["an argument too many", ["status", "now"], /Too many arguments/],
    ["a state that is none", ["tasks", "list", "--state", "done"], /Allowed choices are pending, claimed, running/],
    ["a cause that is none", ["post-mortems", "--cause", "oom"], /Allowed choices are .*out-of-memory/],
    ["a number out of range", ["tasks", "list", "--limit", "5000"], /whole number from 1 to 1000, not 5000/],
    ["a duration that is none", ["enqueue", "a", "--delay", "soon"], /must be a duration.*not "soon"/],
    ["a rate that is none", ["queues", "set", "mail", "--rate-limit", "fast"], /as in "100\/1s"/],
    [
      "options that exclude each other",
      ["enqueue", "a", "--delay", "1s", "--run-at", "2030-01-01"],
      /--delay and --run-at exclude each other/,
    ],
    ["a database that is none", ["status", "--database", "mysql://x"], /must look like postgres:\/\//],
    ["a schema that is none", ["migrate", "--print", "--schema", "My Schema"], /schema: must be 1 to 60 lower-case/],
    ["an order to nobody", ["tasks", "cancel"], /It is not said which tasks/],
    ["a review of nobody", ["tasks", "review", "--done"], /It is not said which tasks.*--all/],
    ["a redrive of nobody", ["tasks", "review", "--redrive", "--limit", "5"], /It is not said which tasks.*--all/],
    ["a redrive of nobody in quarantine", ["tasks", "quarantined", "--redrive"], /It is not said which tasks.*--all/],
    ["all of nothing", ["tasks", "quarantined", "--all"], /--all needs --redrive/],
    ["some and all", ["tasks", "review", "x", "--all", "--done"], /Ids and --all exclude each other/],
    ["done and not done", ["tasks", "review", "x", "--done", "--redrive"], /cannot be used with/],
    ["all queues and five of them", ["queues", "--all", "--limit", "5"], /cannot be used with/],
    ["ids and filters at once", ["tasks", "retry", "x", "--state", "failed"], /exclude each other/],
    [
      "a retry of what can never run again",
      ["tasks", "retry", "--state", "cancelled", "--force"],
      /--state: a task that is cancelled cannot be run again; failed and pending ones can, and with --force also/,
    ],
    ["a retry of what a worker holds", ["tasks", "retry", "--state", "running"], /--force takes it away/],
    ["a cancellation of what has ended", ["tasks", "cancel", "--state", "failed"], /pending, claimed and running ones/],
    ["a task that is not named", ["explain"], /Missing required argument 'task'/],
    ["a state that nobody holds", ["stale", "--state", "pending"], /Allowed choices are claimed, running/],
    ["a confirmation of something else", ["recover", "--confirm", "--dry-run"], /cannot be used with/],
    ["a note on nothing", ["tasks", "review", "--note", "x"], /--note needs --done or --redrive/],
    [
      "an option of runners that is none",
      ["start", "a.ts", "--runners", "processes=2,heapLimits=1GB"],
      /heapLimits: .*did you mean "?heapLimit"?/,
    ],
    ["too small a heap", ["start", "a.ts", "--runners", "heapLimit=1MB"], /heapLimit: must be an amount of memory/],
    ["a profile that is none", ["start", "a.ts", "--recovery", "fats"], /profile: must be .*did you mean "fast"/],
    [
      "a threshold below twice its interval",
      ["start", "a.ts", "--recovery", "runnerHeartbeatInterval=10s,runningStaleThreshold=15s"],
      /runningStaleThreshold: 15s is less than twice runnerHeartbeatInterval \(10s\)/,
    ],
    [
      "an option of recovery that is none",
      ["start", "a.ts", "--recovery", "massDeath.holt=1s"],
      /massDeath\.holt: there is no such option; did you mean "hold"/,
    ],
    ["settings without a setting", ["queues", "set", "mail"], /Nothing is set/],
  ])("%s", async (_what, args, message) => {
    const { code, stdout, stderr } = await everbeatHere(args);
    expect(stderr).toMatch(message);
    expect(stdout).toBe("");
    expect(stderr).not.toMatch(/^\s+at /m);
    // What an option is called has nothing before it.
    expect(stderr).not.toMatch(/\s\.\w+: /);
    expect(code).toBe(2);
  });

  test("all values that options cannot have are told together", async () => {
    const { code, stderr } = await everbeatHere([
      "queues",
      "set",
      "mail",
      "--concurrency",
      "x",
      "--rate-limit",
      "fast",
    ]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/Option '--concurrency <number>' argument 'x' is invalid\. It must be a whole number/);
    expect(stderr).toMatch(/Option '--rate-limit <starts\/duration>' argument 'fast' is invalid\. It must be a number/);
  });

  test("a group without its command shows its help", async () => {
    const { code, stderr } = await everbeat(["tasks"]);
    expect(code).toBe(2);
    expect(stderr).toContain("Usage: everbeat tasks");
  });

  test("with --json the error is the one document on standard output", async () => {
    const { code, answer } = await everbeatJson<{ error: { code: string; message: string } }>(["tasks", "lst"]);
    expect(code).toBe(2);
    expect(answer.error.code).toBe("USAGE");
    expect(answer.error.message).toContain("Did you mean list?");
  });
});

test("a database that cannot be reached is a failure, told without a stack", async () => {
  const { code, stderr } = await everbeat(["status", "--database", "postgres://nobody:secret@127.0.0.1:1/none"]);
  expect(code).toBe(1);
  expect(stderr).toContain("No database could be reached");
  expect(stderr).toContain("everbeat doctor");
  expect(stderr).not.toContain("secret");
  expect(stderr).not.toMatch(/^\s+at /m);
});

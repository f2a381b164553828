/** Advice is data: the line that the command line makes of it leads to the very operation that was advised. */
import { execFileSync } from "node:child_process";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type * as z from "zod";
import { type Advised, type AdvisedCall, type AdvisedOperation, advise } from "../../src/advice.ts";
import { adviceLine, lineOf } from "../../src/cli/advice-line.ts";
import { adviceText } from "../../src/cli/advice-text.ts";
import { createProgram } from "../../src/cli/program.ts";
import { createScreen } from "../../src/cli/screen.ts";
import { type InputOf, OPERATIONS, type OperationName } from "../../src/operations/operations.ts";
import { START_A_WORKER } from "../../src/recovery/explain-words.ts";

const id = "0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11";
const other = "5b0f3c1e-7a52-4c1b-9d7a-2f0a4f0f6b11";

/** At least one of each, and one for each part of an input that may be left out. The compiler asks for those that are new. */
const SAMPLES: { readonly [Name in AdvisedOperation]: readonly Advised[Name][] } = {
  "tasks.cancel": [{ ids: [id] }],
  "tasks.retry": [{ ids: [id] }, { ids: [id, other] }],
  "tasks.explain": [{ id }],
  "tasks.list": [
    { state: "running", queue: "a/b:c" },
    { state: "running", replicaId: other },
  ],
  "queues.resume": [{ name: "mail" }],
  "queues.set": [
    { name: "mail", concurrency: null },
    { name: "mail", rateLimit: null },
  ],
  "replicas.list": [{}],
  "recovery.confirm": [{}, { source: "hearts" }],
  "recovery.recover": [
    {},
    { state: "running", replicaId: other },
    { state: "claimed", after: 10_000 },
    { dryRun: true },
  ],
  "recovery.stale": [{}, { replicaId: other }],
  "review.mark": [{ ids: [id] }],
  doctor: [{}],
  "schema.migrate": [{}],
  "post-mortems.list": [{}],
  "post-mortems.show": [{ of: id }],
};
const calls = Object.entries(SAMPLES).flatMap(([operation, inputs]) =>
  inputs.map((input) => [adviceLine({ operation, input } as AdvisedCall, {}), { operation, input }] as const),
);

// The compiler compares them with the schemas.
SAMPLES satisfies { readonly [Name in AdvisedOperation]: readonly InputOf<Name>[] };

/** What is asked before the very operation. */
const ON_THE_WAY: Readonly<Record<string, object>> = {
  "queues.list": { queues: [] },
  "review.list": { tasks: [{ id }] },
};

const asked: { operation: string; input: object }[] = [];
class Enough extends Error {}

vi.mock("../../src/cli/asking.ts", () => ({
  asking: (_call: unknown, work: (asking: object) => Promise<unknown>) =>
    work({
      async ask(operation: string, input: object) {
        asked.push({ operation, input });
        const answer = ON_THE_WAY[operation];
        if (answer === undefined) throw new Enough();
        return answer;
      },
      now: async () => new Date(),
    }),
}));

describe("the line for", () => {
  // One for all, because each listens to the streams of this process.
  const screen = createScreen({ isJson: true });
  beforeEach(() => {
    asked.splice(0);
    // Where no database is named, the doctor looks at the embedded server first.
    vi.stubEnv("DATABASE_URL", "postgres://db.example.com/app");
  });

  test.each(calls)("%s is taken, and asks for what was advised", async (line, { operation, input }) => {
    const [command, ...words] = wordsOf(line);
    expect(command).toBe("everbeat");
    const program = createProgram({ screen, end() {} });
    await expect(program.parseAsync(words, { from: "user" })).rejects.toBeInstanceOf(Enough);
    const last = asked.at(-1);
    // What is not given is left out, or is what the operation takes it for.
    expect({ operation: last?.operation, input: given(last?.input) }).toEqual({ operation, input });
    const { success } = (OPERATIONS[operation as OperationName].input as z.ZodType).safeParse(input);
    expect(success).toBe(true);
  });

  test("a name that somebody wrote by hand is one word for a shell", () => {
    const line = adviceLine({ operation: "queues.resume", input: { name: "it's; rm -rf $HOME" } }, {});
    expect(wordsOf(line)).toEqual(["everbeat", "queues", "resume", "it's; rm -rf $HOME"]);
  });

  test.each([
    [{}, "everbeat tasks retry T"],
    [{ database: "postgres://db.example.com/app" }, "everbeat tasks retry T --database postgres://db.example.com/app"],
    [{ schema: "it's" }, "everbeat tasks retry T --schema 'it'\\''s'"],
    [
      { database: "postgres://app:s3cret@db/app?sslmode=require&password=s3cret", schema: "jobs" },
      "PGPASSWORD=… everbeat tasks retry T --database 'postgres://app@db/app?sslmode=require' --schema jobs",
    ],
    [
      { database: "postgres://db/app?password=s3cret" },
      "PGPASSWORD=… everbeat tasks retry T --database postgres://db/app",
    ],
    [
      { database: "postgres://db/app?password=s3cret&sslmode=require" },
      "PGPASSWORD=… everbeat tasks retry T --database 'postgres://db/app?sslmode=require'",
    ],
  ])("acts on the database that was given: %j", (given, line) => {
    expect(lineOf(advise("Run it again.", "tasks.retry", { ids: ["T"] }), given)).toBe(line);
  });

  test("starting a worker names the database too", () => {
    const look = { colours: screen.colours, width: 1_000, given: { schema: "jobs" } };
    expect(adviceText(START_A_WORKER, look).join("\n")).toContain("everbeat start tasks.ts --schema jobs");
  });

  test("what no operation does is none", () => {
    expect(lineOf({ sentence: "Start a worker." }, {})).toBeUndefined();
    expect(lineOf(advise("Run it again.", "tasks.retry", { ids: [id] }), {})).toBe(`everbeat tasks retry ${id}`);
  });
});

/** As a shell takes it apart. */
function wordsOf(line: string): string[] {
  return execFileSync("sh", ["-c", `printf '%s\\0' ${line}`], { encoding: "utf8" })
    .split("\0")
    .slice(0, -1);
}

/** What a command gives besides, where nobody has said otherwise. */
const DEFAULTS: Readonly<Record<string, unknown>> = { force: false, dryRun: false, all: false, limit: 50 };

function given(input: object = {}): object {
  return Object.fromEntries(
    Object.entries(input).filter(([key, value]) => value !== undefined && value !== DEFAULTS[key]),
  );
}

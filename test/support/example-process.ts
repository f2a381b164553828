/** An example of the documentation as a process of its own, with a database of its own. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { transform } from "esbuild";
import { onTestFinished } from "vitest";
import { createTestDatabase, type TestDatabase } from "./database.ts";
import type { Example } from "./docs-examples.ts";
import { eventually } from "./eventually.ts";

const CLI = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const LOCAL_WEB = new URL("local-web.js", import.meta.url).href;
const AT_ITS_END = "at its end";

export interface ExampleOptions {
  readonly serverUrl: string;
  /** The database of which it gets a copy. */
  readonly template: string;
  /** The project in which it runs. */
  readonly folder: string;
  /** Who answers whatever it fetches. */
  readonly webUrl: string;
  /** The program around an example that only makes a task; it imports the example as "./example.js". */
  readonly runBy?: string | undefined;
}

export interface Fate {
  readonly title: string;
  /** How it ended; null while it lives. */
  readonly exit: number | NodeJS.Signals | null;
  /** What it wrote to its standard error, besides log lines. */
  readonly complaints: string;
}

export interface ExampleProcess {
  readonly title: string;
  readonly database: TestDatabase;
  /** Waits for a condition in its database; fails at once where the process has failed. */
  until(condition: string, what: string): Promise<void>;
  /** Waits until its last statement was carried out. */
  untilAtItsEnd(): Promise<void>;
  /** Waits until a session of its own is there. */
  untilConnected(): Promise<void>;
  untilExit(): Promise<void>;
  fate(): Fate;
}

export async function startExample(example: Example, options: ExampleOptions): Promise<ExampleProcess> {
  const { title } = example;
  // By that name the test's own sessions are told from those of the example.
  const ofTheTest = new URL(options.serverUrl);
  ofTheTest.searchParams.set("application_name", "test");
  const database = await createTestDatabase(ofTheTest.href, { kind: `template ${options.template}` });
  onTestFinished(() => database.drop());
  await database.query("create table orders (id uuid primary key default gen_random_uuid(), item text not null)");
  await database.query("create table ledger (account text not null, cents integer not null)");
  const program = await programOf(example, { ...options, name: database.name });
  const child = spawn(process.execPath, ["--import", LOCAL_WEB, ...program], {
    cwd: options.folder,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...environmentFor(database), EVERBEAT_TEST_WEB: options.webUrl },
  });
  const exited = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await exited;
  });
  let said = "";
  let complaints = "";
  child.stdout.on("data", (text: Buffer) => {
    said += text;
  });
  child.stderr.on("data", (text: Buffer) => {
    complaints += text;
  });
  const fate = () => ({
    ...{ title, exit: child.exitCode ?? child.signalCode },
    // That its file takes long to load is no fault of it: two dozen processes start at once.
    complaints: complaints.replace(/^(\{"time":.*\}|! .* is still being loaded\. .*)\n/gm, ""),
  });
  const wait = async (what: string, isTrue: () => boolean | Promise<boolean>) => {
    const hasFailed = () => fate().exit !== null && fate().exit !== 0;
    // Two dozen processes start at once, perhaps on a machine that has other work.
    const found = await eventually(() => hasFailed() || isTrue(), { within: 90_000, every: 100 }).catch(String);
    if (found !== true || hasFailed())
      throw new Error(`${title}: not ${what}. ${found} ${JSON.stringify(fate())} ${said}`);
  };
  const isTrue = async (condition: string) =>
    (await database.query<{ isTrue: boolean }>(`select (${condition}) as "isTrue"`))[0]?.isTrue ?? false;
  return {
    title,
    database,
    until: (condition, what) => wait(what, () => isTrue(condition)),
    untilAtItsEnd: () => wait("at its end", () => said.includes(AT_ITS_END)),
    untilConnected: () =>
      wait("connected", () =>
        isTrue(
          "exists (select from pg_stat_activity where datname = current_database() and application_name <> 'test')",
        ),
      ),
    untilExit: () => wait("ended", () => fate().exit !== null),
    fate,
  };
}

/** As the arguments of Node: a file of tasks is for `everbeat start`, everything else is a program. */
async function programOf(example: Example, options: ExampleOptions & { name: string }): Promise<string[]> {
  const isOnlyTasks = !example.text.includes("Everbeat.open(");
  const write = async (name: string, text: string) => {
    const file = join(options.folder, `${options.name}-${name}`);
    await writeFile(file, text);
    return file;
  };
  const compiled = async () => (await transform(example.text, { loader: "ts", format: "esm" })).code;
  if (options.runBy !== undefined) {
    await write("example.js", await compiled());
    return [await write("main.js", options.runBy.replace("./example.js", `./${options.name}-example.js`))];
  }
  if (isOnlyTasks) return [CLI, "start", await write("tasks.ts", example.text)];
  return [await write("main.js", `${await compiled()}console.log("${AT_ITS_END}");\n`)];
}

/** Its database in both forms in which one is named; and noon, since an example may do something else at night. */
function environmentFor({ url, name }: TestDatabase): NodeJS.ProcessEnv {
  const address = new URL(url);
  address.search = "";
  const ahead = 12 - new Date().getUTCHours();
  return {
    ...{ DATABASE_URL: address.href, PGHOST: address.hostname, PGPORT: address.port, PGDATABASE: name },
    ...{ PGUSER: address.username, PGPASSWORD: decodeURIComponent(address.password), NODE_OPTIONS: "" },
    // The signs in these names are the other way round.
    TZ: ahead === 0 ? "UTC" : `Etc/GMT${ahead > 0 ? "-" : "+"}${Math.abs(ahead)}`,
  };
}

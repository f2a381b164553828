/** Every complete example of the documentation, as a process of its own, lives through a restart of the server. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { advanceTime } from "../../src/testing/advance-time.ts";
import { examplesOfDocs, projectForExamples } from "../support/docs-examples.ts";
import { type ExampleProcess, startExample } from "../support/example-process.ts";
import { createMigratedTemplate } from "../support/migrated-template.ts";
import { startOwnServer } from "../support/own-server.ts";

/** What an example gets for whatever it fetches. */
const PAGE = "a page";
const URL_OF_PAGE = "https://example.com/page";

interface Asked {
  readonly name: string;
  readonly input: unknown;
  readonly result: unknown;
  readonly runBy?: string;
}

/** They go on: what is asked of each, before the restart and after it. Those that fetch are in the middle of it meanwhile. */
const WORKERS: Readonly<Record<string, Asked>> = {
  "docs/isolation.md, Isolation: threads and processes": {
    name: "render-page",
    input: { url: URL_OF_PAGE },
    result: { bytes: PAGE.length },
  },
  "docs/isolation.md, How many, and for how long": { name: "ping", input: null, result: "pong" },
  "docs/operations.md, What leaves by itself": { name: "hello", input: null, result: "Hello!" },
  "docs/tasks.md, Define": {
    name: "send-mail",
    input: { to: "ada@example.com", subject: "Tea" },
    result: { status: 200 },
  },
  "docs/tasks.md, Progress and stalls": { name: "import-feed", input: { pages: [URL_OF_PAGE] }, result: null },
  "docs/tasks.md, Batches": { name: "index", input: { id: 1 }, result: { indexed: true } },
  "docs/tasks.md, Middleware": { name: "ping", input: null, result: "pong" },
  "docs/transactions.md, Complete in it": {
    name: "book-payment",
    input: { account: "ada", cents: 5 },
    result: { booked: 5 },
    runBy: `import { Everbeat } from "everbeat";
import { bookPayment } from "./example.js";
const everbeat = await Everbeat.open();
await everbeat.work([bookPayment(everbeat)]);`,
  },
};

/** They go on, and are asked nothing: one listens for silence, and two for notices, since nobody has closed them. */
const LISTENERS = ["docs/recovery.md, The reaper", "docs/workers.md, Workers", "docs/alerts.md, Deliver them"];
/** Waits for the result of a task that is run elsewhere, and goes on. */
const AWAITS_OTHERS = "docs/tasks.md, Enqueue";
/** Runs a task of its own, is in the middle of it when the server goes away, and ends when it has the result. */
const RUNS_ITS_OWN = "README.md, Everbeat";

const NOTHING = "select count(*) = 0 from everbeat.tasks";
const RECEIPT =
  "(select count(*) = 1 from orders) and (select count(*) = 1 from everbeat.tasks where name = 'send-receipt')";
/** Nothing is left to do for them but to hold a connection, which they do for ten seconds: what is on record of each. */
const ENDING: Readonly<Record<string, string>> = {
  "docs/configuration.md, `Everbeat.open(options)`": NOTHING,
  "docs/operations.md, Several processes on one machine": NOTHING,
  "docs/recovery.md, Switching it off": NOTHING,
  "docs/recovery.md, By hand": NOTHING,
  "docs/tasks.md, Unique keys": "select count(*) = 1 from everbeat.tasks where name = 'remind'",
  "docs/tasks.md, Follow a task": "select count(*) = 1 from everbeat.tasks where name = 'copy' and state = 'completed'",
  "docs/transactions.md, Enqueue in it": RECEIPT,
  "docs/transactions.md, Drizzle": RECEIPT,
  "docs/transactions.md, Kysely": RECEIPT,
  "docs/workers.md, Events": NOTHING,
};

/** Those that are not started, and why. */
const NOT_STARTED: Readonly<Record<string, string>> = {
  "docs/testing.md, One handler by itself": "a test that needs no database",
  "docs/testing.md, A database for tests": "a test: it ends by itself, and should fail where its database goes away",
  "docs/testing.md, What was enqueued": "a function for tests, to which an open Everbeat is given",
};

const examples = await examplesOfDocs();

test("it is known of every example what becomes of it, and of no other", () => {
  const known = [WORKERS, ENDING, NOT_STARTED].flatMap((group) => Object.keys(group));
  expect([...known, ...LISTENERS, AWAITS_OTHERS, RUNS_ITS_OWN].sort()).toEqual(
    examples.map(({ title }) => title).sort(),
  );
});

test("every example lives through a restart of the server, or ends well by itself", async () => {
  const server = await startOwnServer({ settings: ["fsync=off"] });
  const template = await createMigratedTemplate(server.url);
  const web = await startWeb();
  const folder = await projectForExamples();
  const start = (title: string, runBy?: string) => {
    const example = examples.find((other) => other.title === title);
    if (!example) throw new Error(`there is no example ${title}`);
    const patient = title === RUNS_ITS_OWN ? { ...example, text: withPatience(example.text) } : example;
    return startExample(patient, { serverUrl: server.url, template, folder, webUrl: web.url, runBy });
  };

  const workers = await Promise.all(
    Object.entries(WORKERS).map(async ([title, asked]) => ({ asked, process: await start(title, asked.runBy) })),
  );
  const listeners = await Promise.all(LISTENERS.map((title) => start(title)));
  const awaitsOthers = await start(AWAITS_OTHERS);
  await Promise.all(workers.map(({ asked, process }) => beginFirst(process, asked)));
  await Promise.all(listeners.map((process) => process.untilAtItsEnd()));
  await awaitsOthers.until("select count(*) = 3 from everbeat.tasks where name = 'resize'", "waiting for its task");
  const runsItsOwn = await start(RUNS_ITS_OWN);
  const ending = await Promise.all(
    Object.entries(ENDING).map(async ([title, done]) => ({ done, process: await start(title) })),
  );
  await Promise.all(ending.map(({ process }) => process.untilAtItsEnd()));
  await runsItsOwn.until("select count(*) = 1 from everbeat.tasks where state = 'running'", "running its task");
  const goOn = [...workers.map(({ process }) => process), ...listeners, awaitsOthers];
  await Promise.all([...goOn, runsItsOwn].map((process) => process.untilConnected()));

  await server.stop("fast");
  await server.start();
  web.answer();

  await Promise.all(goOn.map((process) => process.untilConnected()));
  await Promise.all(workers.map(({ asked, process }) => finishBoth(process, asked)));
  await runForOthers(awaitsOthers);
  await awaitsOthers.untilAtItsEnd();
  const leave = [...ending.map(({ process }) => process), runsItsOwn];
  await Promise.all(leave.map((process) => process.untilExit()));
  for (const { done, process } of ending) await process.until(done, "done with its work");
  expect(await resultsIn(runsItsOwn)).toEqual([{ name: "resize", result: { bytes: PAGE.length } }]);
  expect([...goOn, ...leave].map((process) => process.fate())).toEqual([
    ...goOn.map(({ title }) => ({ title, exit: null, complaints: "" })),
    ...leave.map(({ title }) => ({ title, exit: 0, complaints: "" })),
  ]);
}, 400_000);

/**
 * Its task may be repeated. Where a great deal of other work keeps its heart from the database for half a second, or its handler from
 * stopping then, the heart ends the process: as it should, and not what this is about.
 */
function withPatience(text: string): string {
  const patience = '{ recovery: { sessionGrace: "20s", claimedStaleThreshold: "2m", runningStaleThreshold: "2m" } }';
  expect(text).toContain("Everbeat.open()");
  return text.replace("Everbeat.open()", `Everbeat.open(${patience})`);
}

/** Answers whatever is asked, but not before it is told to. */
async function startWeb(): Promise<{ url: string; answer: () => void }> {
  let answer = () => {};
  const told = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const web = createServer((_request, response) => void told.then(() => response.end(PAGE)));
  web.listen(0, "127.0.0.1");
  await once(web, "listening");
  onTestFinished(() => void web.close().closeAllConnections());
  return { url: `http://127.0.0.1:${(web.address() as AddressInfo).port}/`, answer };
}

async function beginFirst(process: ExampleProcess, { name, input }: Asked): Promise<void> {
  await process.until("exists (select from everbeat.definition)", "a worker that has told what it knows");
  await process.database.query("select everbeat.enqueue($1, $2)", [name, JSON.stringify(input)]);
  const begun = "select count(*) = 1 from everbeat.tasks where state in ('running', 'completed')";
  await process.until(begun, "at its first task");
}

async function finishBoth(process: ExampleProcess, { name, input, result }: Asked): Promise<void> {
  await process.database.query("select everbeat.enqueue($1, $2)", [name, JSON.stringify(input)]);
  await process.until("select count(*) = 2 from everbeat.tasks where state = 'completed'", "done with both tasks");
  expect(await resultsIn(process)).toEqual([1, 2].map(() => ({ name, result })));
}

/** As another worker, which also takes the task that is due in five minutes. */
async function runForOthers({ database }: ExampleProcess): Promise<void> {
  const everbeat = await Everbeat.open({ database: database.url, log: "silent" });
  onTestFinished(() => everbeat.close({ now: true }));
  await advanceTime(everbeat, "5m");
  const resize = defineTask({ name: "resize", run: (input: { url: string }) => input.url.length });
  await everbeat.work([resize], { handleSignals: false });
}

function resultsIn({ database }: ExampleProcess): Promise<unknown[]> {
  return database.query("select name, result from everbeat.tasks");
}

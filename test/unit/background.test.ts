/** Everything that runs in the background is in the list of services, or stands beside it with the reason why it is none. */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { SERVICES } from "../../src/services/list.ts";
import { OWN_PACE } from "../../src/services/own-pace.ts";

/** What waits once, and then no more: by file, for what. A new file that waits is one of these, a service, or has a pace of its own (src/services/own-pace.ts). */
const WAITS_ONCE: Readonly<Record<string, string>> = {
  "alerts/alerts.ts": "until alerts that could not be written are tried again",
  "alerts/delivery.ts": "for the channel that takes a change",
  "cli/demo/demo-tasks.ts": "as a task would work",
  "cli/demo/stage.ts": "for what the demo shows",
  "cli/demo/storyteller.ts": "so that a line can be read",
  "cli/demo/worker-process.ts": "for a worker to leave",
  "cli/example-tasks.ts": "as a task would work",
  "cli/load-tasks.ts": "until it is said that loading takes long",
  "cli/progress-line.ts": "between two pictures, while a command is at something",
  "cli/run-worker.ts": "for a third signal",
  "database/backoff.ts": "is what others wait with",
  "database/database.ts": "for a reply",
  "database/embedded/machine.ts": "for a folder",
  "database/embedded/reach-server.ts": "for the server to answer",
  "database/embedded/run-program.ts": "for a program to end",
  "database/embedded/shut-down.ts": "for the server to stop",
  "database/embedded/start-server.ts": "for the server to start",
  "database/end-client.ts": "for a connection to end",
  "database/probe-session.ts": "for a notice that shows whether there is a pooler",
  "database/wake-up.ts": "is what others wait with",
  "heart/last-word.ts": "for the heart to have a connection",
  "heart/thread-stack.ts": "for a stack",
  "outlet/descriptor-queue.ts": "for the reader of a stream",
  "queue/patiently.ts": "until a call is tried again",
  "recovery/report-exit.ts": "for the runners of a process that has ended",
  "runner/latest-call.ts": "so that calls go together",
  "runner/pass-on.ts": "for the rest of a line",
  "runner/process-channel.ts": "for the end of a process",
  "runner/runner.ts": "for a runner to start, or to end",
  "runner/thread-channel.ts": "for the end of a thread",
  "services/cluster-services.ts": "to ask sooner",
  "services/service.ts": "is the loop of all services",
  "services/turn-runs.ts": "for runs to end",
  "supervisor/child.ts": "for a child to leave",
  "testing/advance-time.ts": "until a test's statement is tried again",
  "testing/drain.ts": "for a test's tasks to end",
  "timer.ts": "is what others wait with",
  "upkeep/purge-record.ts": "between two batches of one run",
  "worker/execution.ts": "for a handler",
  "worker/replica.ts": "for the first beat",
  "worker/waiting.ts": "is what others wait with",
  "worker/worker.ts": "for handlers that were aborted",
};

const sources = readdirSync("src", { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts"))
  .map((file) => ({ file, text: readFileSync(`src/${file}`, "utf8") }));

const WAITING = /\b(?:setInterval|setTimeout|new Timer|createBackoff|(?<!async |[.#\w])(?:delay|pause))\(/;
const SERVICE = /\bcreate(?:Noticed)?Service\(/;

const filesWith = (pattern: RegExp) => sources.flatMap(({ file, text }) => (pattern.test(text) ? file : []));

describe("what runs in the background", () => {
  test("is a service, has a pace of its own for a reason, or waits once", () => {
    const paced = Object.values(OWN_PACE).flatMap(({ files }) => files as readonly string[]);
    const known = new Set([...paced, ...Object.keys(WAITS_ONCE)]);
    const waiting = filesWith(WAITING);
    expect(waiting.filter((file) => !known.has(file))).toEqual([]);
    // What is said of files that do not wait any more.
    expect([...known].filter((file) => !waiting.includes(file))).toEqual([]);
    expect(paced.filter((file) => file in WAITS_ONCE)).toEqual([]);
  });

  test("again and again by a timer has a pace of its own, but for what ends with what it waits for", () => {
    const paced = new Set<string>(Object.values(OWN_PACE).flatMap(({ files }) => files as readonly string[]));
    expect(filesWith(/\bsetInterval\(/).filter((file) => !paced.has(file))).toEqual([
      "cli/progress-line.ts",
      "runner/thread-channel.ts",
    ]);
  });

  test("is found by this rule however it waits", () => {
    for (const line of ["setTimeout(f, 5)", "await delay(5)", "new Timer(5, f)", "await pause(5)", "setInterval(f)"])
      expect(WAITING.test(line)).toBe(true);
    expect(WAITING.test("clearTimeout(timer); await backoff.pause(signal); this.delay()")).toBe(false);
  });

  test("as a service is made in the place that the list knows, and nothing in the list is made nowhere", () => {
    const made = filesWith(SERVICE).filter((file) => !/^services\/(noticed-)?service\.ts$/.test(file));
    const named = new Set(
      sources
        .filter(({ file }) => made.includes(file))
        .flatMap(({ text }) => [...text.matchAll(/(?:name: |quietly\()"([^"]+)"/g)].map(([, name]) => name)),
    );
    const ofProcess = Object.entries(SERVICES).flatMap(([name, { scope }]) => (scope === "process" ? name : []));
    expect(ofProcess.filter((name) => !named.has(name))).toEqual([]);
  });
});

test("the page lists what has a pace of its own, with the reason", () => {
  const page = readFileSync("docs/operations.md", "utf8");
  const rows = Object.entries(OWN_PACE).map(([name, { does, because }]) => `| ${name} | ${does} | ${because} |`);
  const begin = page.indexOf("| goes on | does | is no service because |");
  expect(begin).toBeGreaterThan(0);
  expect(page.slice(begin).split("\n\n")[0]?.trim().split("\n").slice(2).toSorted()).toEqual(rows.toSorted());
});

/** Somebody takes the port of a server that has crashed: those who are open reach the server again, by the name that they know. */
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, type TestContext, test, vi } from "vitest";
import { describeEmbeddedServer, joinEmbeddedServer } from "../../src/database/embedded/embedded-server.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { everbeat, projectWith, startEverbeat } from "../cli/run-cli.ts";
import { query, untilStopped } from "../support/embedded-looks.ts";
import { keepersOf, killPostmaster, oneKeeperAtWork } from "../support/embedded-processes.ts";
import { temporaryProject } from "../support/embedded-project.ts";
import { eventually } from "../support/eventually.ts";
import { PRINTING_TASKS, printing } from "../support/printing-tasks.ts";

// Real servers, on a machine that has other work too.
vi.setConfig({ testTimeout: 180_000 });

/** While all who would start the server again stand still, somebody else takes its port. */
async function crashAndTakePort(crash: { folder: string; url: string; dataFolder: string; open: number }) {
  const { folder, url, dataFolder, open } = crash;
  await oneKeeperAtWork(folder, url);
  const starters = [open, ...(await keepersOf(folder))];
  for (const pid of starters) process.kill(pid, "SIGSTOP");
  await killPostmaster(dataFolder, "SIGKILL");
  const stranger = createServer((socket) => void socket.on("error", () => {}));
  onTestFinished(() => void stranger.close());
  await eventually(
    async () => {
      stranger.listen(Number(new URL(url).port), "127.0.0.1");
      return await once(stranger, "listening").then(
        () => true,
        () => false,
      );
    },
    { what: "the port", within: 30_000 },
  );
  for (const pid of starters) process.kill(pid, "SIGCONT");
}

/** A worker, open since before the crash. */
async function workerOn(folder: string) {
  const cwd = await projectWith({ "tasks.js": PRINTING_TASKS });
  const worker = startEverbeat(["start", "tasks.js"], { cwd, env: { EVERBEAT_FOLDER: folder } });
  await worker.says("worker started", 60_000);
  return worker;
}

async function pidsOnline(folder: string): Promise<number[]> {
  const caller = await Everbeat.open({ folder, log: "silent" });
  try {
    return (await caller.replicas()).filter(({ status }) => status === "online").map(({ pid }) => pid);
  } finally {
    await caller.close();
  }
}

async function expectToWorkOn(folder: string, pid: number | undefined): Promise<void> {
  const caller = await Everbeat.open({ folder, log: "silent" });
  onTestFinished(() => caller.close());
  const id = await caller.enqueue(printing("inline"), {});
  expect(await caller.result(id, { timeout: "40s" })).toBeGreaterThan(0);
  expect(await pidsOnline(folder)).toEqual([pid]);
}

test("a worker goes on when somebody takes the port of a server that has crashed", async (context: TestContext) => {
  const { folder } = await temporaryProject(context);
  const server = await joinEmbeddedServer({ folder, lingerMs: 250 });
  const { url, dataFolder } = server;
  const worker = await workerOn(folder);
  await server.close();
  await crashAndTakePort({ folder, url, dataFolder, open: Number(worker.child.pid) });
  await expectToWorkOn(folder, worker.child.pid);

  const again = await joinEmbeddedServer({ folder, lingerMs: 250 });
  onTestFinished(() => again.close());
  expect(again.url).toBe(url);
  expect(again.tcpUrl).toBe(undefined);
  expect(await query(again.url, "show listen_addresses")).toEqual([{ listen_addresses: "" }]);
  const port = Number(new URL(url).port);
  expect((await describeEmbeddedServer(folder)).running).toMatchObject({ port, hasPort: false });
  const { stdout } = await everbeat(["doctor"], { env: { EVERBEAT_FOLDER: folder } });
  expect(stdout).toContain(`without a port for other programs: ${port} was taken when it started`);
});

test("where there are no sockets, a worker and its heart go on at another port", async (context: TestContext) => {
  const { folder } = await temporaryProject(context);
  const first = await joinEmbeddedServer({ folder, lingerMs: 250 });
  await first.close();
  await untilStopped(first);
  // What PostgreSQL meets on a file system without sockets is the same: it cannot make one.
  await mkdir(join(first.dataFolder, `.s.PGSQL.${new URL(first.url).port}`, "not empty"), { recursive: true });
  const server = await joinEmbeddedServer({ folder, lingerMs: 250 });
  const { url, dataFolder } = server;
  const worker = await workerOn(folder);
  await server.close();
  await crashAndTakePort({ folder, url, dataFolder, open: Number(worker.child.pid) });
  await expectToWorkOn(folder, worker.child.pid);
  const again = await joinEmbeddedServer({ folder, lingerMs: 250 });
  onTestFinished(() => again.close());
  expect(again.url).toContain("@127.0.0.1:");
  expect(again.url).not.toBe(url);
});

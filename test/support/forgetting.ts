/**
 * A fleet at work on a server that loses the last part of its memory: everything after a certain point has happened for the workers, and
 * has not for the database. Then the record is judged: what was written about a task was written by whoever had the right to.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { expect, onTestFinished } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { checkRights, type RightsRecord, type Signature } from "./check-rights.ts";
import { eventually } from "./eventually.ts";
import { PATIENT, startWorker, task, type WorkerProcess } from "./worker-process.ts";

const sign = task("sign");
const hold = task("hold");
/** Of each part: before the point, between it and the loss, and after. */
const CLAIMS = 60;

/** For the servers of such scenes: when each transaction has committed is on record. No disk is lost here, only processes are. */
export const FORGETTING_SETTINGS = ["track_commit_timestamp=on", "fsync=off"];

export interface Forgetting {
  readonly url: string;
  /** From here on the server will have forgotten. */
  point(): Promise<void> | void;
  /** It is there again, without what came after the point. */
  lose(): Promise<void> | void;
}

export async function expectRightsToSurvive({ url, point, lose }: Forgetting): Promise<void> {
  const scene = await open(url);
  const { everbeat, load, claimsSigned, queues } = scene;
  const early = [await scene.startWorker(), await scene.startWorker()];
  await load.goOn();
  const pendingAgain = await everbeat.enqueue(hold, {}, { queue: queues.paused });
  await point();

  // What follows happens for the workers only.
  const workers = [...early, await scene.startWorker()];
  const goneForGood = await everbeat.enqueue(hold, {});
  await everbeat.queues.resume(queues.paused);
  const holders = [await begunBy(workers, pendingAgain), await begunBy(workers, goneForGood)];
  await load.goOn();
  const signedBefore = claimsSigned();
  await lose();

  // A worker that holds a claim which the database does not know is told, and goes on.
  for (const [holder, taskId] of [
    [holders[0], pendingAgain],
    [holders[1], goneForGood],
  ] as const) {
    expect(await holder?.heard({ handler: "aborted", taskId }, 60_000)).toMatchObject({ code: "CLAIM_LOST" });
  }
  await load.goOn();
  await load.stop();
  for (const worker of workers) worker.release();
  await scene.insist(() => everbeat.queues.resume(queues.paused));
  await eventually(() => scene.query("select from everbeat.ready union all select from everbeat.running"), {
    until: (left) => left.length === 0,
    within: 90_000,
    what: "the end of all tasks",
  });
  expect(await everbeat.result(pendingAgain)).toBe("held");
  await expect(everbeat.tasks.show(goneForGood)).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
  expect(workers.map(({ endedBy }) => endedBy)).toEqual([undefined, undefined, undefined]);
  expect(checkRights(await readRights(scene, signedBefore))).toEqual([]);
}

/** What the database has on record, beside what the handlers have signed. */
async function readRights({ query, claimsSigned }: Scene, signedBefore: readonly Signature[]): Promise<RightsRecord> {
  const ids = "task_id::text as task, claim_id::text as claim";
  const committedAt = "(extract(epoch from pg_xact_commit_timestamp(xmin)) * 1000000)::float8";
  const [row] = await query<{ lastClaim: string }>(`select last_value::text as "lastClaim" from everbeat.claim_id`);
  const ofColumn = (rows: readonly { id: string }[]) => rows.map(({ id }) => id);
  return {
    signedBefore,
    signed: claimsSigned(),
    lastClaim: row?.lastClaim ?? "0",
    tasks: ofColumn(await query("select id::text from everbeat.task")),
    attempts: await query(
      `select ${ids}, ${committedAt} as "endedAt" from everbeat.attempt
       union all select ${ids}, ${committedAt} from everbeat.ended where claim_id is not null`,
    ),
    outcomes: await query(
      `select ${ids}, state, result from everbeat.ended where task_id in (select id from everbeat.task where name = 'sign')`,
    ),
    ended: ofColumn(await query("select task_id::text as id from everbeat.ended")),
    effects: await query(`select ${ids}, ${committedAt} as "committedAt" from effect`),
  };
}

type Scene = Awaited<ReturnType<typeof open>>;

async function open(url: string) {
  const pool = new pg.Pool({ connectionString: url, max: 2 });
  pool.on("error", () => {});
  onTestFinished(() => pool.end());
  const query = async <Row>(text: string) => (await pool.query(text)).rows as Row[];
  await query("create table effect (task_id uuid, claim_id bigint, kind text)");
  const everbeat = await Everbeat.open({ database: url, log: "silent", recovery: PATIENT });
  onTestFinished(() => everbeat.close({ now: true }));
  const folder = mkdtempSync(join(tmpdir(), "everbeat-signed-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "claims");
  writeFileSync(file, "");
  const queues = { paused: "paused" };
  await everbeat.queues.pause(queues.paused);
  const claimsSigned = (): Signature[] =>
    readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => {
        const [id, claim] = line.split(" ") as [string, string];
        return { task: id, claim };
      });
  const insist = (work: () => Promise<unknown>) => eventually(() => work().then(() => true), { within: 60_000 });
  return {
    ...{ everbeat, query, queues, claimsSigned, insist },
    load: startLoad(everbeat, () => claimsSigned().length),
    startWorker: () =>
      startWorker({
        ...{ url, file, open: { recovery: PATIENT }, work: { concurrency: 10 } },
        tasks: [
          { handler: "sign", onCrash: "requeue", retry: { attempts: 50, backoff: "fixed", delay: 100 } },
          // Goes on while its worker is cut off: it is the database that tells it.
          { handler: "hold", onCrash: "fail", whenCutOff: "continue" },
        ],
      }),
  };
}

/** Callers that put tasks in all the while, and no more of them than are begun. */
function startLoad(everbeat: Everbeat, begun: () => number) {
  let isOver = false;
  let put = 0;
  const caller = (async () => {
    while (!isOver) {
      const inputs = Array.from({ length: 20 }, (_, n) => ({ ms: n % 7, inTransaction: n % 2 === 0 }));
      // Refused while the server is away: nothing depends on it.
      await everbeat.enqueueMany(sign, inputs).catch(() => {});
      put += inputs.length;
      await eventually(() => isOver || begun() + CLAIMS > put, { within: 60_000, what: "room for more tasks" }).catch(
        () => {
          put = begun();
        },
      );
    }
  })();
  const stop = async () => {
    isOver = true;
    await caller;
  };
  onTestFinished(stop);
  return {
    stop,
    async goOn(): Promise<void> {
      const before = begun();
      put = Math.min(put, before);
      await eventually(begun, {
        until: (now) => now >= before + CLAIMS,
        within: 90_000,
        what: `${CLAIMS} more claims`,
      });
    },
  };
}

async function begunBy(workers: readonly WorkerProcess[], taskId: string): Promise<WorkerProcess> {
  return Promise.any(workers.map((worker) => worker.heard({ handler: "begun", taskId }).then(() => worker)));
}

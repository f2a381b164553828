/**
 * A small source of silence over tables that are a user's: runs of an import, whose signs of life are rows of a log. As a watch will: it locks the
 * doubtful rows, judges again with a newer snapshot, and only then writes. Owners fail independently of each other, so its guard counts them.
 */
import type { Database } from "../../src/database/database.ts";
import type { PassedBy } from "../../src/recovery/passed-by.ts";
import { type GuardParts, RememberedGuard } from "../../src/recovery/remembered-guard.ts";
import type { Dead, Doubtful, Source } from "../../src/recovery/source.ts";

export interface Run {
  readonly id: number;
  readonly owner: string;
  readonly owners: number;
}

export const IMPORT_TABLES = `
  create table import_owner (name text primary key, status text not null default 'online');
  create table import_run (id serial primary key, owner text not null references import_owner, status text not null default 'running',
    started_at timestamptz not null default now(), failed_because text);
  create table import_log (run_id integer not null references import_run, said_at timestamptz not null default clock_timestamp())`;

const SILENT_MS = `extract(epoch from clock_timestamp() - greatest(r.started_at, l.hearing_since,
  (select max(said_at) from import_log where run_id = r.id)))::float8 * 1000`;

/** Its hold is remembered under this name. */
export const IMPORTS = "imports";
export const HOLD_MS = 60_000;
const LIMITS = { staleFromMs: 2 * 60_000, deadAfterMs: 10 * 60_000, sessionGoneAfterMs: undefined };

export class ImportRuns implements Source<Run> {
  readonly doing = "looking for silent imports";
  readonly passedBy: PassedBy;
  readonly told: string[] = [];
  readonly policies: Source<Run>["policies"];
  readonly guard: RememberedGuard<Run>;
  readonly #database: Database;
  #warned: readonly string[] = [];

  /** `parts`: what the guard needs. */
  constructor(database: Database, passedBy: PassedBy, parts: GuardParts) {
    this.#database = database;
    this.passedBy = passedBy;
    this.policies = [
      {
        ...{ doing: "failing", isOneByOne: false },
        limitsOf: () => LIMITS,
        act: (dead) => this.#fail(dead),
        tell: (done) => void this.told.push(...done.map(({ subject }) => `${subject} failed`)),
      },
    ];
    this.guard = new RememberedGuard(parts, {
      ...{ source: IMPORTS, counted: "owners", everyMs: 1_000, policy: { share: 0.5, atLeast: 3, holdMs: HOLD_MS } },
      memberOf: ({ context: { owner, owners }, verdict }) => ({
        ...{ group: owner, groups: owners },
        ...{ isWell: verdict.kind === "fresh", isGroupWell: false },
      }),
    });
  }

  async findDoubtful(): Promise<Doubtful<Run>[]> {
    const rows = await this.#database.query<Run & { silentForMs: number }>(
      `select r.id, r.owner, (select count(distinct owner)::int from import_run where status = 'running') as owners, s.ms as "silentForMs"
       from import_run r cross join everbeat.listening l cross join lateral (select ${SILENT_MS} as ms) s
       where r.status = 'running' and s.ms >= $1 order by r.id`,
      [LIMITS.staleFromMs],
    );
    return rows.map(({ silentForMs, ...run }) => ({ subject: `import ${run.id}`, silentForMs, context: run }));
  }

  async warn(stale: readonly Doubtful<Run>[]): Promise<void> {
    const now = stale.map(({ subject }) => subject);
    this.told.push(...now.filter((one) => !this.#warned.includes(one)).map((one) => `${one} is stale`));
    this.#warned = now;
  }

  /** From what is on record: an owner without a run is offline, whoever failed the last one. */
  async recover(): Promise<void> {
    await this.#database.query(
      `update import_owner o set status = 'offline' where status = 'online' and not exists (
         select from import_run r where r.owner = o.name and r.status = 'running')`,
    );
  }

  #fail(dead: readonly Dead<Run>[]): Promise<readonly Dead<Run>[]> {
    return this.#database.transaction(async (tx) => {
      // A run whose log somebody is writing is not to be had: its row is locked by the foreign key.
      const locked = await tx.query<{ id: number }>(
        "select id from import_run where id = any ($1) and status = 'running' order by id for update skip locked",
        [dead.map(({ context }) => context.id)],
      );
      const failed = await tx.query<{ id: number }>(
        `update import_run set status = 'failed', failed_because = 'silent' where id in (
           select r.id from unnest($1::int[], $2::float8[]) as d (id, beyond_ms)
           join import_run r on r.id = d.id cross join everbeat.listening l where r.id = any ($3) and ${SILENT_MS} > d.beyond_ms) returning id`,
        [
          dead.map(({ context }) => context.id),
          dead.map(({ verdict }) => verdict.beyondMs),
          locked.map(({ id }) => id),
        ],
      );
      return dead.filter(({ context }) => failed.some(({ id }) => id === context.id));
    });
  }
}

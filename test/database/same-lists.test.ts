/** What is written once in SQL and once in TypeScript says the same in both. */
import { expect, test } from "vitest";
import { isAboutTheValues } from "../../src/database/transient.ts";
import { MAY_HAVE_HAD_EFFECTS } from "../../src/sql/review.ts";
import { TASK_STATES } from "../../src/task/states.ts";
import { LAG_MS } from "../../src/worker/search-cursors.ts";
import { openTestEverbeat } from "../support/database.ts";

const { database } = await openTestEverbeat();

test("which errors are about the rows at hand", async () => {
  const signs = [..."0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"];
  const classes = signs.flatMap((first) => signs.map((second) => first + second));
  const details = ["000", "001", "002", "P01", "P03"];
  const own = Array.from({ length: 1_000 }, (_, number) => `EB${String(number).padStart(3, "0")}`);
  const codes = [...classes.flatMap((one) => details.map((detail) => one + detail)), ...own];
  const rows = await database.query<{ code: string }>(
    "select code from unnest($1::text[]) code where everbeat.is_about_rows(code)",
    [codes],
  );
  const inSql = new Set(rows.map(({ code }) => code));
  expect(inSql.size).toBeGreaterThan(10);
  expect(codes.filter((code) => isAboutTheValues({ code, severity: "ERROR" }) !== inSql.has(code))).toEqual([]);
});

test("how much earlier than what it has seen a search says it has seen", async () => {
  const [row] = await database.query<{ ms: number }>(
    `select extract(epoch from substring(prosrc from $$c_lag\\s+constant interval := '([^']+)'$$)::interval)::float8 * 1000 as ms
     from pg_proc where oid = 'everbeat.claim_tasks'::regproc`,
  );
  expect(row?.ms).toBe(LAG_MS);
});

test("which tasks failed with effects that somebody should look at, and which are in the index of these", async () => {
  const [index] = await database.query<{ condition: string }>(
    "select pg_get_expr(indpred, indrelid) as condition from pg_index where indexrelid = 'everbeat.ended_crashed'::regclass",
  );
  const condition = index?.condition ?? "";
  const named = [...`${condition} ${MAY_HAVE_HAD_EFFECTS}`.matchAll(/'([A-Z_]+)'/g)].map(([, code]) => code);
  expect(new Set(named).size).toBeGreaterThan(1);
  const differing = await database.query(
    `select * from (select state, error_code from unnest($1::text[]) state, unnest($2::text[]) error_code) e
     where (${condition}) is distinct from (${MAY_HAVE_HAD_EFFECTS})`,
    [TASK_STATES, [...named, "OTHER"]],
  );
  expect(differing).toEqual([]);
});

test("how often a claim picks rows in a lane, and how often they are looked through for one that fails it", async () => {
  const constant = async (name: string, of: string) => {
    const [row] = await database.query<{ found: string }>(
      "select substring(prosrc from $1) as found from pg_proc where oid = $2::regproc",
      [`${name}\\s+constant integer := (\\d+)`, `everbeat.${of}`],
    );
    return Number(row?.found);
  };
  const picks = (await constant("c_rounds", "claim_tasks")) + (await constant("c_passes", "claim_tasks"));
  expect(await constant("c_most", "first_bad_rows")).toBe(picks);
});

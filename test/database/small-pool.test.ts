/** A process with two connections runs the services of the cluster, and its own statements are answered all the same. */
import { expect, test } from "vitest";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const SLOW_S = 3;

test("services that are slow leave a connection to their process, all of them get on, and sweeps go on", async () => {
  const { everbeat, database } = await openTestEverbeat({ poolSize: 2, runsServices: true });
  // Each run of these three has a connection for so long.
  await database.query("create table public.slow (service text, at timestamptz default clock_timestamp())");
  for (const [service, name, takes, gives] of [
    ["stalls", "find_stalled", "integer", undefined],
    ["upkeep", "run_upkeep", "integer", undefined],
    ["purge", "purge_beats", "double precision, integer", undefined],
  ] as const) {
    void [takes, gives];
    const [{ signature, result } = { signature: "", result: "" }] = await database.query<{
      signature: string;
      result: string;
    }>(
      `select pg_get_function_identity_arguments(oid) as signature, pg_get_function_result(oid) as result
       from pg_proc where pronamespace = 'everbeat'::regnamespace and proname = $1`,
      [name],
    );
    const count = signature.split(",").length;
    const values = Array.from({ length: count }, (_, at) => `$${at + 1}`).join(", ");
    await database.query(`alter function everbeat.${name}(${signature}) rename to ${name}_itself`);
    await database.query(
      `create function everbeat.${name}(${signature}) returns ${result} language plpgsql as $$ begin
         insert into public.slow (service) values ('${service}');
         perform pg_sleep(${SLOW_S});
         ${result.startsWith("TABLE") || result.startsWith("SETOF") ? "return query select * from" : "return"} everbeat.${name}_itself(${values});
       end $$`,
    );
  }
  const isUnderWay = async () =>
    (await everbeat.services()).cluster.filter(({ service, isRunning }) => isRunning && service !== "sweep").length;
  await eventually(async () => (await isUnderWay()) > 0, { within: 30_000 });
  let slowestMs = 0;
  const swept = new Set<number>();
  const hasRun = async () => {
    const beganMs = performance.now();
    await everbeat.queues.list();
    slowestMs = Math.max(slowestMs, performance.now() - beganMs);
    const sweep = (await everbeat.services()).cluster.find(({ service }) => service === "sweep");
    swept.add(Number(sweep?.takenAt));
    const [{ services } = { services: 0 }] = await database.query<{ services: number }>(
      "select count(distinct service)::integer as services from public.slow",
    );
    return services === 3 && swept.size > 20;
  };
  await eventually(hasRun, { within: 50_000, what: "runs of all three, and sweeps beside them" });
  // Less than one of their statements.
  expect(slowestMs).toBeLessThan((SLOW_S * 1_000) / 2);
});

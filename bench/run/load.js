/** What would take hours to bring about through the API is put straight into our tables. The only SQL here about them. */

/** Ended tasks, as a worker would have left them. */
export async function loadEnded(database, count) {
  await inSlices(count, 500_000, (slice) =>
    database.query(
      `with put as (
         insert into everbeat.task (id, name, queue, priority, run_at, input)
         select uuidv7(), 'bench', 'default', 0, now() - interval '1 hour', '{"n":1}' from generate_series(1, $1)
         returning id
       )
       insert into everbeat.ended (task_id, state, claim_id, replica_id, attempt, failures, crashes, claimed_at, started_at, ended_at, result)
       select id, 'completed', nextval('everbeat.claim_id'), '00000000-0000-7000-8000-000000000000', 1, 0, 0, now(), now(), now(), 'null'
       from put`,
      [slice],
    ),
  );
}

/** Tasks of a name that nobody knows, which wait where the others are put. */
export async function loadUnknown(database, count) {
  await database.query("select everbeat.enqueue('unknown')");
  await inSlices(count, 500_000, (slice) =>
    database.query(
      `with put as (
         insert into everbeat.task (id, name, queue, priority, run_at, input)
         select uuidv7(), 'unknown', 'default', 0, now() - interval '1 minute', '{"n":1}' from generate_series(1, $1)
         returning id, queue, priority, run_at, name
       )
       insert into everbeat.ready (task_id, queue, priority, run_at, name) select id, queue, priority, run_at, name from put`,
      [slice],
    ),
  );
}

export async function countLanes(database) {
  const [{ lanes }] = await database.query("select count(*)::int as lanes from everbeat.lane");
  return lanes;
}

/** Replicas on a machine each, whose hearts are heard for the next hour, each with so many running tasks. */
export async function loadReplicas(database, { replicas, tasksEach }) {
  await database.query(
    `with made as materialized (select uuidv7() as id, n from generate_series(1, $1) n),
     machines as (
       insert into everbeat.machine (id, hostname) select 'bench-machine-' || n, 'bench-' || n from made
       on conflict do nothing
     ), replicas as (
       insert into everbeat.replica (id, hostname, pid, version, tasks, machine_id)
       select id, 'bench-' || n, n, 'bench', '{bench}', 'bench-machine-' || n from made
     ), hearts as (
       insert into everbeat.heart (replica_id, beat_at, epoch, interval_ms, promise_ms, session_promise_ms, session_key)
       select id, now() + interval '1 hour', everbeat.current_epoch(), 2000, 10000, 500, everbeat.session_key(id) from made
     ), tasks as (
       insert into everbeat.task (id, name, queue, priority, run_at, input)
       select uuidv7(), 'bench', 'default', 0, now(), '{"n":1}' from made, generate_series(1, $2)
       returning id
     )
     insert into everbeat.running (claim_id, task_id, replica_id, state, name, queue, priority, run_at, gated, attempt, failures,
                                   crashes, claimed_at, started_at)
     select nextval('everbeat.claim_id'), t.id, m.id, 'running', 'bench', 'default', 0, now(), false, 1, 0, 0, now(), now()
     from (select id, row_number() over () as place from tasks) t
     join (select id, row_number() over () as place from made) m on m.place = (t.place - 1) % $1 + 1`,
    [replicas, tasksEach],
  );
  await database.query("analyze");
}

/** As their hearts would: each holds its session lock, for as long as this session lives. */
export async function holdSessions(session) {
  await session.query("update everbeat.heart set session_epoch = epoch where session_epoch is null");
  await session.query("select count(pg_advisory_lock_shared(session_key)) from everbeat.heart");
}

/** One of those replicas, with this many tasks, dies at this moment: as a reaper's verdict leaves it. Returns its id. */
export async function loadDeadReplica(database, tasks) {
  await loadReplicas(database, { replicas: 1, tasksEach: tasks });
  const [{ id }] = await database.query(
    "select id from everbeat.replica where version = 'bench' order by id desc limit 1",
  );
  return id;
}

export async function declareDead(database, replicaId) {
  await database.query(
    `with heart as (update everbeat.heart set is_dead = true where replica_id = $1)
     update everbeat.replica set status = 'dead', died_at = clock_timestamp(), death = '{"because":"silent"}' where id = $1`,
    [replicaId],
  );
}

/** Whether it has unfinished tasks. To count them would take as much of the server as their recovery. */
export async function hasTasks(database, replicaId) {
  const [{ has }] = await database.query("select exists (select from everbeat.running where replica_id = $1) as has", [
    replicaId,
  ]);
  return has;
}

async function inSlices(count, size, load) {
  for (let done = 0; done < count; done += size) await load(Math.min(size, count - done));
}

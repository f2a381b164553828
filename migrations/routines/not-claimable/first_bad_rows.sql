-- Of what this claim can come to in a queue, some that cannot be claimed: the first of them at least. p_after: before the trial, the claim is
-- made in these queues. `claimed`: how many others of the queue could be claimed. Where that is none before the bad ones, those behind them and
-- of lower priority are tried too, for a second at most: only a row that can be claimed shows that the bad ones are to blame. Nothing of it stays.
create or replace function first_bad_rows(p_queue text, p_claim asked_claim, p_after text[], out bad bad_row[], out claimed integer)
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  c_chunk  constant integer := 100;
  -- In each lane, as often as a claim picks rows (c_rounds and c_passes there), as many as it wants. Any number once bad ones were found.
  c_most   constant integer := 72 * (p_claim.run + p_claim.reserve + p_claim.prefetch);
  v_lane   record;
  v_chunk  record;
  v_tried  integer;
  v_trial  record;
  v_end    timestamptz := clock_timestamp() + interval '1 second';
begin
  bad := '{}';
  claimed := 0;
  perform repeat_claim(p_claim, p_after);
  <<by_lane>>
  for v_lane in
    select l.priority, c.after_run_at, c.after_task
    from lane l
    left join queue q on q.name = l.queue
    cross join lateral search_begins(q, l.id, p_claim.cursor_lane, p_claim.cursor_run_at, p_claim.cursor_task, p_claim.seen) c
    where l.queue = p_queue
    order by l.priority, l.id
  loop
    v_tried := 0;
    while v_tried < c_most or cardinality(bad) > 0 loop
      select array_agg(f.row_id) as rows, count(*)::integer as count, (array_agg(f.run_at))[count(*)] as run_at, (array_agg(f.task_id))[count(*)] as task_id
      into v_chunk
      from (
        select r.ctid as row_id, r.run_at, r.task_id from ready r
        where r.queue = p_queue and r.priority = v_lane.priority and r.run_at <= now()
          and (r.run_at, r.task_id) > (v_lane.after_run_at, v_lane.after_task) and r.name = any (p_claim.names)
        order by r.run_at, r.task_id
        limit c_chunk
        for update skip locked
      ) f;
      exit when v_chunk.rows is null;
      select * into v_trial from bad_rows(v_chunk.rows, p_queue, p_claim);
      claimed := claimed + v_trial.claimed;
      if cardinality(bad) = 0 then
        bad := v_trial.bad;
      end if;
      exit by_lane when cardinality(bad) > 0 and (claimed > 0 or clock_timestamp() > v_end);
      v_lane.after_run_at := v_chunk.run_at;
      v_lane.after_task := v_chunk.task_id;
      v_tried := v_tried + v_chunk.count;
    end loop;
  end loop;
  raise exception using errcode = 'EB999';
exception when sqlstate 'EB999' then
  null;
end $$;

-- p_fresh: no id was ever used before. Else the same id again is the same task again: a call that was repeated because
-- its reply was lost, or one whose caller chose the ids. That costs a search for each, and an insert in two steps.
-- p_alone: this statement is a transaction of its own. p_id: the id that the (only) task gets instead of its own.
-- p_long: the inputs of the (only) group, where they are so long that taking them out of other JSON would cost time. The list may end with
-- nulls. It cannot be given together with p_fresh. p_patience_ms: somebody else's transaction, which has put in the same id, is not waited for
-- any longer.
create or replace function insert_tasks(
  p_terms json, p_inputs json, p_fresh boolean, p_alone boolean, p_id uuid default null, p_long json[] default null,
  p_patience_ms integer default null) returns void
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  -- Due soon counts as due: an idle worker that is told looks when the next task is due, and is there in time.
  c_soon constant timestamptz := now() + interval '10 seconds';
  v_queues     text[];
  v_priorities smallint[];
  v_due        text[];
  v_put        bigint;
begin
  if p_patience_ms is not null then
    perform set_config('lock_timeout', p_patience_ms::text, true);
  end if;
  if p_fresh then
    with groups as materialized (
      select * from task_groups(p_terms, p_inputs)
    ),
    -- The last of these is carried out first. So the first id is where two meet who bring the same ones; were it the other
    -- way round here and below, each could wait for the other, until the server puts an end to it.
    waiting as (
      insert into ready (task_id, queue, priority, run_at, name, gated, expires_at, input)
      select id, queue, priority, run_at, name, gated, expires_at, case when has_input and octet_length(input::text) <= 256 then input end
      from (
        select unnest(ids) as id, json_array_elements(inputs) as input, queue, priority, run_at, name, gated, expires_at,
               not gated and run_at = now() and metadata is null as has_input
        from (select *, exclusive_key is not null or rate_key is not null as gated from groups) g) g
    ), put as (
      insert into task (id, name, queue, priority, run_at, expires_at, unique_key, exclusive_key, exclusive_limit,
                        rate_key, rate_limit, rate_per_ms, input, metadata)
      select unnest(ids), name, queue, priority, run_at, expires_at, unique_key, exclusive_key, exclusive_limit,
             rate_key, rate_limit, rate_per_ms, json_array_elements(inputs), metadata
      from groups
    )
    select array_agg(queue), array_agg(priority), array_agg(queue) filter (where run_at <= c_soon)
    into v_queues, v_priorities, v_due from groups g;
  else
    with put as (
      insert into task (id, name, queue, priority, run_at, expires_at, unique_key, exclusive_key, exclusive_limit,
                        rate_key, rate_limit, rate_per_ms, input, metadata)
      select coalesce(p_id, x.id), name, queue, priority, run_at, expires_at, unique_key, exclusive_key, exclusive_limit,
             rate_key, rate_limit, rate_per_ms, x.input, metadata
      from task_groups(p_terms, p_inputs) g,
           rows from (unnest(g.ids), unnest(coalesce(p_long[:cardinality(g.ids)], array(select json_array_elements(g.inputs))))) as x (id, input)
      on conflict (id) do nothing
      returning id, queue, priority, run_at, name, expires_at, exclusive_key, rate_key
    ), waiting as (
      insert into ready (task_id, queue, priority, run_at, name, gated, expires_at)
      select id, queue, priority, run_at, name, exclusive_key is not null or rate_key is not null, expires_at from put
    ), used as materialized (
      select queue, priority, bool_or(run_at <= c_soon) as is_due, count(*) as tasks from put group by queue, priority
    )
    select array_agg(queue), array_agg(priority), array_agg(queue) filter (where is_due), coalesce(sum(tasks), 0)
    into v_queues, v_priorities, v_due, v_put from used u;
    if v_put < (select sum(cardinality(x.ids)) from json_to_recordset(p_terms) as x (ids uuid[])) then
      perform refuse_taken_ids(p_terms);
    end if;
    -- All were there, and may be so for too short a time to be durable (insert_task_promptly). The caller is about to be told that they
    -- are: locking one writes to the log, and makes the commit wait for it and for all that was written before.
    if v_queues is null then
      perform from task where id = (select coalesce(p_id, ids[1]) from task_groups(p_terms, p_inputs) limit 1) for key share;
    end if;
  end if;

  if v_queues is not null then
    perform add_lanes(v_queues, v_priorities);
  end if;
  if v_due is null then
    return;
  elsif p_alone then
    perform ring(v_due);
  else
    perform announce(v_due);
  end if;
end $$;

-- compatible-from: 15
-- The end of a runner that ran several tasks, or had run others before: a crash with suspects, like that of a replica. In `crash` and
-- `suspicion`, the id of such a crash is that of the runner.

-- At how many crashes this task was together with others. Volatile: a claim may follow the end of the task's last attempt in the same statement.
create function suspicion_of(p_task uuid) returns integer
language plpgsql volatile set search_path from current
as $$
begin
  return (select count(*) from suspicion where task_id = p_task and not is_charged);
end $$;

-- Notes the crashes that these attempts tell of, if their claims hold, and their tasks as suspects, if they run again. Those are gated from then on, so
-- that whoever claims them next asks whether it may (see admit).
create function note_runner_suspects(p_claims bigint[], p_tasks uuid[], p_outcomes json) returns void
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
begin
  -- In the order in which everybody locks them.
  perform from running where task_id = any (p_tasks) and claim_id = any (p_claims) order by replica_id, claim_id for update;
  with told as (
    select x.task, x.claim, x."to" = 'pending' as runs_again, c.*
    from json_to_recordset(p_outcomes) as x (claim bigint, task uuid, "to" text, crash json)
    cross join json_to_record(x.crash) as c (id uuid, running integer, "isApart" boolean)
    join running u on u.task_id = x.task and u.claim_id = x.claim
    where x.crash is not null
  ), crashed as (
    insert into crash (replica_id, running, most, with_most) select distinct id, running, 0, running from told on conflict do nothing
  ), noted as (
    insert into suspicion (task_id, replica_id, is_charged, is_apart) select task, id, false, "isApart" from told where runs_again
    on conflict do nothing
  )
  update running u set gated = true from told t where t.runs_again and u.task_id = t.task and u.claim_id = t.claim and not u.gated;
end $$;

-- The tasks that were in these runners before are suspects too, those of them that may run again. They are gated: a task that waits, at once,
-- unless somebody has locked its row; a parked one when it is let go (make_ready); one that runs when it waits again (is_suspect).
create function note_earlier_suspects(p_outcomes json) returns void
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
declare
  v_noted uuid[];
begin
  with noted as (
    insert into suspicion (task_id, replica_id, is_charged, is_apart)
    select distinct b.task, c.id, false, false
    from json_to_recordset(p_outcomes) as x (crash json)
    cross join json_to_record(x.crash) as c (id uuid, before uuid[])
    cross join unnest(c.before) as b (task)
    join task t on t.id = b.task
    where x.crash is not null
      and exists (select from crash k where k.replica_id = c.id)
      and not exists (select from ended e where e.task_id = b.task)
    on conflict do nothing
    returning task_id
  )
  select array_agg(task_id) into v_noted from noted;
  if v_noted is not null then
    update ready set gated = true where ctid = any (array(
      select ctid from ready where task_id = any (v_noted) and input is null and not gated for update skip locked));
  end if;
end $$;

-- Like end_claims, for outcomes of which some tell of the crash of a runner:
--   crash       { id, running, isApart, before }: the task was there together with others, who ran beside it (`running` counts them and it) or
--               were in the runner earlier (`before`: their tasks)
--   isConvicted the task is found to be what kills its runners: the crashes that it was at are explained, and the others are cleared of them
create function end_crashed_claims(
  p_claims bigint[], p_tasks uuid[], p_outcomes json, p_owners uuid[] default null, p_is_followed boolean default false, p_long json[] default '{}',
  p_patience_ms integer default null)
returns json
language plpgsql set search_path from current
as $$
declare
  v_said json;
begin
  if p_patience_ms is not null then
    perform set_config('lock_timeout', p_patience_ms::text, true);
  end if;
  perform note_runner_suspects(p_claims, p_tasks, p_outcomes);
  v_said := end_claims(p_claims, p_tasks, p_outcomes, p_owners, p_is_followed, p_long);
  perform note_earlier_suspects(p_outcomes);
  perform clear_bystanders(array(
    select x.task from json_to_recordset(p_outcomes) as x (claim bigint, task uuid, "isConvicted" boolean)
    join ended e on e.task_id = x.task and e.claim_id = x.claim
    where x."isConvicted"));
  return v_said;
end $$;

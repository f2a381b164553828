-- The tasks that were in these runners earlier, or elsewhere in their workers where memory was shared, are suspects too, those of them that may run
-- again. They are gated: a task that waits, at once, unless somebody has locked its row; a parked one when it is let go (make_ready); one that runs
-- when it waits again (is_suspect).
create or replace function note_other_suspects(p_outcomes json) returns void
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
declare
  v_noted uuid[];
begin
  with noted as (
    insert into suspicion (task_id, replica_id, is_charged, is_apart)
    select distinct b.task, c.id, false, false
    from json_to_recordset(p_outcomes) as x (crash json)
    cross join json_to_record(x.crash) as c (id uuid, others uuid[])
    cross join unnest(c.others) as b (task)
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

-- What becomes of a task whose unique key is taken by one that counts:
--   keep     the old one stays, the new one is not enqueued
--   replace  the old one, if it is still pending, gets the new one's input and time; else the new one is enqueued too
--   refuse   the new one is not enqueued, and the caller is told
-- Each task is a group of its own. Returns a row for each that was not simply enqueued. p_patience_ms: a transaction that holds one of
-- the keys is not waited for any longer.
create or replace function enqueue_keyed(p_terms json, p_inputs json, p_refuse_all boolean, p_alone boolean, p_patience_ms integer default null)
returns table (ordinal integer, task_id uuid, outcome text)
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
as $$
declare
  v_task   record;
  v_hold   unique_hold;
  v_until  timestamptz;
  v_since  timestamptz;
  v_state  text;
  v_ids    uuid[] := '{}';
  v_terms  json[] := '{}';
  v_inputs json[] := '{}';
begin
  if p_patience_ms is not null then
    perform set_config('lock_timeout', p_patience_ms::text, true);
  end if;
  for v_task in
    select e.terms, e.inputs, e.ordinality::integer as place, x.ids[1] as id, x.*
    from rows from (json_array_elements(p_terms), json_array_elements(p_inputs)) with ordinality as e (terms, inputs, ordinality)
    cross join lateral json_to_record(e.terms) as x (
      ids uuid[], name text, "uniqueKey" text, "uniqueOver" text[], "uniqueForMs" bigint, "onDuplicate" text)
    -- In the order of the keys, so that two callers with the same keys wait for each other and never both ways.
    order by x.name, x."uniqueKey" nulls first, e.ordinality
  loop
    outcome := null;
    if v_task."uniqueKey" is not null and not exists (select from task where id = v_task.id) then
      v_until := now() + make_interval(secs => v_task."uniqueForMs" / 1000.0);
      -- Either the key is free and ours, or it is taken and locked. Again where it was purged in between.
      loop
        insert into unique_hold (name, key, task_id, counts_until) values (v_task.name, v_task."uniqueKey", v_task.id, v_until)
        on conflict do nothing;
        v_hold := null;
        exit when found;
        select h.* into v_hold from unique_hold h where h.name = v_task.name and h.key = v_task."uniqueKey" for update;
        exit when found;
      end loop;
      if v_hold.task_id is not null then
        -- A task that was purged is known by its key, for as long as that was asked for.
        v_state := coalesce(task_state(v_hold.task_id), case when v_hold.task_id = any (v_ids) then 'pending' end,
                            case when v_hold.counts_until > now() then v_hold.ended_as end);
        v_since := coalesce((select t.created_at from task t where t.id = v_hold.task_id), v_hold.created_at, now());
        v_until := v_since + make_interval(secs => v_task."uniqueForMs" / 1000.0);
        outcome := case
          when v_state is null or v_state <> all (coalesce(v_task."uniqueOver", '{pending,claimed,running}')) or v_until <= now() then null
          when v_task."onDuplicate" = 'replace' then
            case when v_state = 'pending' and replace_pending(v_hold.task_id, v_task.terms, v_task.inputs, p_alone) then 'replaced' end
          when v_task."onDuplicate" = 'refuse' then 'refused'
          else 'kept'
        end;
        if outcome is null then
          update unique_hold h
          set task_id = v_task.id, counts_until = now() + make_interval(secs => v_task."uniqueForMs" / 1000.0), created_at = null, ended_as = null
          where h.name = v_task.name and h.key = v_task."uniqueKey";
        elsif outcome = 'refused' and p_refuse_all then
          raise exception 'unique key % of task % is taken by %', v_task."uniqueKey", v_task.name, v_hold.task_id
            using errcode = 'EB002', detail = json_build_object('uniqueKey', v_task."uniqueKey", 'name', v_task.name, 'holder', v_hold.task_id);
        elsif v_until > coalesce(v_hold.counts_until, '-infinity') then
          update unique_hold h set counts_until = v_until where h.name = v_task.name and h.key = v_task."uniqueKey";
        end if;
      end if;
    end if;
    if outcome is null then
      v_ids := v_ids || v_task.id; v_terms := v_terms || v_task.terms; v_inputs := v_inputs || v_task.inputs;
    else
      ordinal := v_task.place; task_id := v_hold.task_id;
      return next;
    end if;
  end loop;
  perform insert_tasks(array_to_json(v_terms), array_to_json(v_inputs), false, p_alone);
end $$;

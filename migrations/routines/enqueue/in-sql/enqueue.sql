-- For triggers and other languages: select enqueue('resize', '{"url": "…"}', '{"delay": "5m", "uniqueKey": "a"}').
-- Returns the task's id; with onDuplicate keep, that of the task that was there already.
create or replace function enqueue(p_name text, p_input json default '{}', p_options jsonb default '{}') returns uuid
language plpgsql set search_path from current
as $$
declare
  v_problems text[];
  v_definition definition;
  v_id       uuid;
  v_terms    json;
  v_inputs   json := json_build_array(json_build_array(coalesce(p_input, 'null')));
  v_holder   uuid;
  v_size     integer := coalesce(octet_length(p_input::text), 0);
begin
  p_options := coalesce(p_options, '{}');
  if jsonb_typeof(p_options) = 'object' then
    v_problems := enqueue_problems(p_options);
  else
    v_problems := array[format('options: must be an object, not %s', left(p_options::text, 60))];
  end if;
  v_problems := v_problems || array(
    select format('name: %s', x) from option_problem(coalesce(to_jsonb(p_name), 'null'), 'name') x where x is not null
    union all
    select format('input: has %s bytes; at most 1048576 are allowed; store it elsewhere and pass a reference', v_size) where v_size > 1048576
    union all
    select 'input: it is nested more than 1,000 levels deep' where is_too_deep(p_input::text));
  if cardinality(v_problems) > 0 then
    raise exception 'task % was not enqueued: %', p_name, array_to_string(v_problems, '; ')
      using errcode = 'EB003', detail = to_json(v_problems);
  end if;

  select * into v_definition from definition where name = p_name;
  v_id := coalesce((p_options ->> 'id')::uuid, new_task_id());
  v_terms := json_build_array(json_build_object(
    'ids', array[v_id], 'name', p_name,
    'queue', coalesce(p_options ->> 'queue', v_definition.queue, 'default'),
    'priority', coalesce((p_options ->> 'priority')::numeric::smallint, v_definition.priority, 0),
    'runAt', instant(p_options -> 'runAt'),
    'delayMs', coalesce(duration_ms(p_options -> 'debounce'), duration_ms(p_options -> 'delay')),
    'expiresAt', instant(p_options -> 'expiresAt'),
    'expiresInMs', duration_ms(p_options -> 'expiresIn'),
    'uniqueKey', p_options -> 'uniqueKey',
    'uniqueOver', p_options -> 'uniqueOver',
    'uniqueForMs', duration_ms(p_options -> 'uniqueFor'),
    'onDuplicate', coalesce(p_options ->> 'onDuplicate', case when p_options ? 'debounce' then 'replace' end),
    'exclusiveKey', p_options -> 'exclusiveKey',
    'exclusiveLimit', case when p_options ? 'exclusiveKey' then coalesce((p_options ->> 'exclusiveLimit')::numeric::smallint, 1) end,
    'rateKey', p_options #> '{rateLimit,key}',
    'rateLimit', (p_options #>> '{rateLimit,limit}')::numeric::integer,
    'ratePerMs', duration_ms(p_options #> '{rateLimit,per}'),
    'metadata', (p_options -> 'metadata')::text));
  if not p_options ? 'uniqueKey' then
    perform insert_tasks(v_terms, v_inputs, not p_options ? 'id', false);
    return v_id;
  end if;
  select e.task_id into v_holder from enqueue_keyed(v_terms, v_inputs, true, false) e;
  return coalesce(v_holder, v_id);
end $$;

-- Everything that is wrong with the options of a task, by the rules of the clients (src/queue/enqueue-options.ts).
create or replace function enqueue_problems(p_options jsonb) returns text[]
language sql immutable set search_path from current
as $$
  with known (key, kind, least, most) as (
    values ('id', 'uuid', null::numeric, null::numeric), ('queue', 'name', null, null), ('priority', 'number', -100, 100),
      ('delay', 'duration', 0, 315360000000), ('runAt', 'instant', null, null), ('expiresAt', 'instant', null, null),
      ('expiresIn', 'duration', 0, 315360000000), ('uniqueKey', 'key', null, null), ('onDuplicate', 'what to do', null, null),
      ('uniqueOver', 'states', null, null), ('uniqueFor', 'duration', 0, 315360000000), ('debounce', 'duration', 0, 315360000000),
      ('exclusiveKey', 'key', null, null), ('exclusiveLimit', 'number', 1, 10000), ('rateLimit', 'rate', null, null),
      ('metadata', 'anything', null, null)
  ), parts (path, kind, least, most, value) as (
    select key, kind, least, most, p_options -> key from known where p_options ? key
    union all
    select 'rateLimit.' || part, kind, least, most, p_options -> 'rateLimit' -> part
    from (values ('key', 'key', null::numeric, null::numeric), ('limit', 'number', 1, 1000000), ('per', 'duration', 1, 31536000000)) r (part, kind, least, most)
    where jsonb_typeof(p_options -> 'rateLimit') = 'object' and p_options -> 'rateLimit' ? part
  ), problems (problem) as (
    select format('unknown option %L: use one of %s', k, (select string_agg(key, ', ') from known))
    from jsonb_object_keys(p_options) k where k not in (select key from known)
    union all
    select format('%s: %s', path, option_problem(value, kind, least, most)) from parts where option_problem(value, kind, least, most) is not null
    union all
    select format('rateLimit: cannot be counted: at most %s starts in %s ms (one per microsecond)', per * 1000, per)
    from (select case when option_problem(p_options #> '{rateLimit,limit}', 'number', 1, 1000000) is null
                      then (p_options #>> '{rateLimit,limit}')::numeric end, duration_ms(p_options #> '{rateLimit,per}')) r (starts, per)
    where starts > per * 1000 and per > 0
    union all
    select format('%s and %s exclude each other; give one of them', a, b)
    from (values ('delay', 'runAt'), ('delay', 'debounce'), ('runAt', 'debounce'), ('expiresAt', 'expiresIn')) c (a, b)
    where p_options ?& array[a, b]
    union all
    select format('%s: needs %s', option, other)
    from (values ('onDuplicate', 'uniqueKey'), ('uniqueOver', 'uniqueKey'), ('uniqueFor', 'uniqueKey'), ('debounce', 'uniqueKey'),
      ('exclusiveLimit', 'exclusiveKey')) n (option, other)
    where p_options ? option and not p_options ? other
    union all
    select 'onDuplicate: must be "replace" with debounce, or left out'
    where p_options ?& array['debounce', 'onDuplicate'] and p_options ->> 'onDuplicate' in ('keep', 'refuse')
    union all
    select format('metadata: has %s bytes; at most 1048576 are allowed', octet_length((p_options -> 'metadata')::text))
    where octet_length((p_options -> 'metadata')::text) > 1048576
    union all
    select 'metadata: it is nested more than 1,000 levels deep' where is_too_deep((p_options -> 'metadata')::text)
  )
  select coalesce(array_agg(problem), '{}') from problems
$$;

-- What is wrong with the value of an option, in the words of the clients; null if nothing is.
create or replace function option_problem(p_value jsonb, p_kind text, p_min numeric default null, p_max numeric default null) returns text
language plpgsql immutable set search_path from current
as $$
declare
  v_type text := jsonb_typeof(p_value);
  v_text text := p_value #>> '{}';
  v_must text;
begin
  v_must := case p_kind
    when 'uuid' then case when v_type <> 'string' or v_text !~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
      then 'a UUID' end
    when 'name' then case when v_type <> 'string' or v_text !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$'
      then '1 to 128 ASCII letters, digits or . _ : / -, starting with a letter or a digit' end
    when 'key' then case when v_type <> 'string' or char_length(v_text) not between 1 and 512
      then 'text of 1 to 512 characters' end
    when 'instant' then case when instant(p_value) is null
      then 'an ISO 8601 time such as "2030-01-31T09:00:00Z", from the year 1000 to 9999' end
    when 'duration' then case when coalesce(duration_ms(p_value) not between p_min and p_max, true)
      then format('a duration from %s to %s ms, such as 1500 or "30s"', p_min, p_max) end
    when 'what to do' then case when v_type <> 'string' or v_text not in ('keep', 'replace', 'refuse')
      then '"keep" or "replace" or "refuse"' end
    when 'states' then case when v_type <> 'array' or p_value = '[]'
        or not p_value <@ '["pending", "claimed", "running", "completed", "failed", "cancelled", "expired"]'
      then 'a list of task states' end
    when 'rate' then case when v_type <> 'object' or not p_value ?& array['key', 'limit', 'per'] or p_value - array['key', 'limit', 'per'] <> '{}'
      then 'an object with key, limit and per' end
  end;
  -- In a branch of its own: what is not a number cannot be compared with one.
  if p_kind = 'number' and v_type = 'number' and v_text::numeric between p_min and p_max and v_text::numeric = trunc(v_text::numeric) then
    return null;
  elsif p_kind = 'number' then
    v_must := format('a whole number from %s to %s', p_min, p_max);
  end if;
  return case when v_must is not null then format('must be %s, not %s', v_must, left(p_value::text, 60)) end;
end $$;

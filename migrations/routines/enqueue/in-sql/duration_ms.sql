-- A duration as the clients write it (src/config/duration.ts), in whole milliseconds: a number of them, or text such as '30s', '5m',
-- '2h'. Null if it is none. Its patterns name spaces and digits one by one: what \s and \d take depends on the locale, and a cast takes less.
create or replace function duration_ms(p_value jsonb) returns bigint
language sql immutable
as $$
  select case when ms between 0 and 315360000000 then round(ms)::bigint end
  from (select case jsonb_typeof(p_value)
    when 'number' then (p_value #>> '{}')::numeric
    when 'string' then (
      select m[1]::numeric * case m[2] when 'ms' then 1 when 's' then 1000 when 'm' then 60000 when 'h' then 3600000 else 86400000 end
      from regexp_match(p_value #>> '{}', '^[ \t\r\n]*([0-9]{1,255}(?:\.[0-9]{1,255})?)[ \t\r\n]*(ms|s|m|h|d)[ \t\r\n]*$') m)
  end) d (ms)
$$;

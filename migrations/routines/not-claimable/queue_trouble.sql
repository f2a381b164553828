-- Why this queue's settings cannot be used; null if they can.
create or replace function queue_trouble(p_queue queue) returns text
language plpgsql set search_path from current
as $$
begin
  if p_queue.rate_limit is not null then
    perform take_rate('queue/' || p_queue.name, p_queue.rate_limit, p_queue.rate_per_ms, 1);
  end if;
  raise exception using errcode = 'EB999';
exception when others then
  if sqlstate <> 'EB999' and not is_about_rows(sqlstate) then
    raise;
  end if;
  return case when sqlstate <> 'EB999' then format('%s (%s)', sqlerrm, sqlstate) end;
end $$;

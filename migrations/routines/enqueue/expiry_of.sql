-- When a task expires. Refuses one that may only start when it has: judged here, by the clock that will start and expire it.
create or replace function expiry_of(p_name text, p_start timestamptz, p_expires_at timestamptz) returns timestamptz
language plpgsql immutable
as $$
begin
  if p_start >= p_expires_at then
    raise exception 'task % was not enqueued: it would expire before it may start', p_name
      using errcode = 'EB003', detail = json_build_array('it would expire before it may start: let it expire later, or start sooner');
  end if;
  return p_expires_at;
end $$;

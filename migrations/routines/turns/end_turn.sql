-- Gives a turn back and says how the run went (p_error: null if it went well). Only the turn that is named: a run that took too long may have been followed by another's.
create or replace function end_turn(p_token uuid, p_took_ms double precision, p_error text) returns boolean
language sql set search_path from current set lock_timeout = '500ms'
as $$
  update turn
  set held_until = '-infinity', ended_at = clock_timestamp(), took_ms = p_took_ms, error = p_error,
      failures = case when p_error is null then 0 else least(failures + 1, 1000) end,
      failing_since = case when p_error is not null then coalesce(failing_since, taken_at) end
  where token = p_token returning true
$$;

-- Locks the settings of a queue that has a limit, and what counts its rate, until commit: so two claims cannot both see the last free place.
-- The row is read as it is now: it may have been changed meanwhile. Null: somebody else has it locked. Whoever does is mostly another claim,
-- and it is worth waiting for its commit (p_waits). A transaction that stays open for long must not hold up all claims.
create or replace function hold_queue(p_queue text, p_waits boolean) returns queue
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set lock_timeout = '100ms'
as $$
declare
  v_queue queue;
begin
  select * into v_queue from queue where name = p_queue for update skip locked;
  if not found and p_waits then
    begin
      select * into v_queue from queue where name = p_queue for update;
    exception when lock_not_available then
      null;
    end;
  end if;
  if v_queue.rate_limit is not null and (hold_rate('queue/' || p_queue)).key is null then
    return null;
  end if;
  return v_queue;
end $$;

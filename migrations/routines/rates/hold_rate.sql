-- Locks what counts a rate, until commit. Null: somebody else has it locked, and is not waited for. A claim that waits keeps everything from
-- its worker. Only a transaction that adds or removes the row at this moment (see src/sql/purge.ts) is waited for, for 50 ms at most: it
-- usually ends at once.
create or replace function hold_rate(p_key text) returns rate
language plpgsql set search_path from current set lock_timeout = '50ms'
as $$
declare
  v_rate rate;
begin
  select * into v_rate from rate where key = p_key for update skip locked;
  if not found then
    begin
      insert into rate (key, spent_until, deferred_until) values (p_key, now(), now()) on conflict (key) do nothing;
      select * into v_rate from rate where key = p_key for update skip locked;
    exception when lock_not_available then
      null;
    end;
  end if;
  return v_rate;
end $$;

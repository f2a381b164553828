-- False: somebody keeps the key's lock for longer than this. The setting is named above so that it ends with the call.
create or replace function wait_for_key(p_key text, p_patience_ms integer) returns boolean
language plpgsql set search_path from current set lock_timeout = '200ms'
as $$
begin
  -- To the server, 0 would mean that there is no limit.
  if p_patience_ms < 1 then
    return false;
  end if;
  perform set_config('lock_timeout', p_patience_ms::text, true);
  perform pg_advisory_xact_lock(gate_lock_id('exclusive', p_key));
  return true;
exception when lock_not_available then
  return false;
end $$;

-- For whoever keeps asking until it is resolved. False: it is open still (see resolve_alerts).
create or replace function resolve_alert(p_kind text, p_subject text) returns boolean
language plpgsql set search_path from current set lock_timeout = '100ms'
as $$
begin
  if resolve_alerts(array(select id from alert where kind = p_kind and subject = p_subject and resolved_at is null)) then
    return true;
  end if;
  return not exists (select from alert where kind = p_kind and subject = p_subject and resolved_at is null);
end $$;

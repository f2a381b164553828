-- The one statement that resolves alerts: those of them that are open. False: none was resolved.
-- Nobody waits for an alert. So one that somebody has locked stays open, and so do all in a transaction with an old snapshot, which an alert that
-- has changed since would make fail. The next sweep resolves those that are seen to be over (src/sql/alert-causes.ts).
create or replace function resolve_alerts(p_ids bigint[]) returns boolean
language plpgsql set search_path from current set lock_timeout = '100ms'
as $$
begin
  if sees_the_past() then
    return false;
  end if;
  update alert set resolved_at = now()
  where id = any (array(select id from alert where id = any (p_ids) and resolved_at is null for update skip locked));
  return found;
end $$;

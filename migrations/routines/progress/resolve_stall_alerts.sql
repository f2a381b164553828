-- The alerts about stalled attempts of these tasks are over, because the attempts are. Whoever ends them says so, and not only the next
-- sweep: perhaps nobody sweeps. No end of a task may fail or wait on account of an alert. So the next sweep is left with those that
-- somebody has locked, with those that cannot be written, of which it tells why, and with all of them in a transaction with an old
-- snapshot, which an alert that has changed since would make fail.
create or replace function resolve_stall_alerts(p_tasks uuid[]) returns void
language plpgsql set search_path from current
as $$
begin
  if sees_the_past() then
    return;
  end if;
  update alert set resolved_at = now()
  where id = any (array(
    select id from alert where kind = 'task-stalled' and subject = any (p_tasks::text[]) and resolved_at is null for update skip locked));
exception when others then
  null;
end $$;

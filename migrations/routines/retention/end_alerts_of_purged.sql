-- The alert ends when the task could be deleted, or is no ended task any more. That may neither fail nor wait on account of an alert: the next sweep
-- resolves what is left (see resolveEndedAlerts).
create or replace function end_alerts_of_purged() returns trigger
language plpgsql set search_path from current
as $$
begin
  update alert set resolved_at = now() where id = any (array(
    select a.id from alert a join gone g on g.told_as = a.subject where a.kind = 'upkeep-passed-by' and a.resolved_at is null
    for update of a skip locked));
  return null;
exception when others then
  return null;
end $$;

create or replace trigger not_purged_gone after delete on not_purged referencing old table as gone for each statement execute function end_alerts_of_purged();

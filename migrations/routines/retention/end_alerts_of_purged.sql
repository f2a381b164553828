-- The alert ends when the task could be deleted, or is no ended task any more.
create or replace function end_alerts_of_purged() returns trigger
language plpgsql set search_path from current
as $$
begin
  perform resolve_alerts_of('upkeep-passed-by', array(select told_as from gone));
  return null;
end $$;

create or replace trigger not_purged_gone after delete on not_purged referencing old table as gone for each statement execute function end_alerts_of_purged();

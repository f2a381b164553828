-- By which transaction a replica was changed last. Followers find by it what they were not told.
create or replace function note_replica_change() returns trigger
language plpgsql set search_path from current
as $$
begin
  new.changed_in := pg_current_xact_id();
  return new;
end $$;

create or replace trigger replica_change_noted before update of status, came_back_at on replica
for each row when (new.status <> old.status or new.came_back_at is distinct from old.came_back_at) execute function note_replica_change();

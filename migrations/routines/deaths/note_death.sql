create or replace function note_death() returns trigger
language plpgsql set search_path from current
as $$
begin
  -- The silence that it died of is not one that passed.
  delete from unrest u using heart h where u.kind = 'stale' and u.replica_id = new.id and h.replica_id = new.id and u.happened_at >= h.beat_at;
  insert into unrest (kind, machine_id, hostname, replica_id) values ('dead', coalesce(new.machine_id, new.hostname), new.hostname, new.id);
  return null;
end $$;

create or replace trigger replica_death after update of status on replica
for each row when (new.status = 'dead' and old.status <> 'dead') execute function note_death();

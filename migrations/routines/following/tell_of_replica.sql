-- A replica has joined, or its status has changed, or it has come back under another id. By a trigger, so that nobody who changes a status can
-- leave it out.
create or replace function tell_of_replica() returns trigger
language plpgsql set search_path from current
as $$
begin
  if exists (select from follower) then
    perform tell_followers(replica_change(new.status, new.came_back_at), array['replica ' || new.id, 'replica *'], null, array_fill(
      json_build_object('replicaId', new.id, 'hostname', new.hostname), array[2]));
  end if;
  return null;
end $$;

create or replace trigger replica_joined after insert on replica for each row execute function tell_of_replica();

create or replace trigger replica_changed after update of status, came_back_at on replica
for each row when (new.status <> old.status or new.came_back_at is distinct from old.came_back_at) execute function tell_of_replica();

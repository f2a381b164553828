-- A replica's silence is worth a warning.
create or replace function tell_of_silence() returns trigger
language plpgsql set search_path from current
as $$
begin
  if exists (select from follower) then
    perform tell_followers('stale', array['replica ' || new.replica_id, 'replica *'], null, array_fill(
      json_build_object('replicaId', new.replica_id, 'hostname', new.hostname), array[2]));
  end if;
  return null;
end $$;

create or replace trigger replica_silent after insert on unrest for each row when (new.kind = 'stale') execute function tell_of_silence();

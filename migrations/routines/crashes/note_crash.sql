create or replace function note_crash(p_replica uuid) returns setof crash
language sql set search_path from current set lock_timeout = '500ms'
as $$
  insert into crash (replica_id, running, most, with_most)
  select p_replica, c.running, c.most, c.with_most from crowd_of(p_replica) c where c.running > 0
  on conflict (replica_id) do nothing;
  select * from crash where replica_id = p_replica;
$$;

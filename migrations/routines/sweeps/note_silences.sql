-- That these replicas are silent, once for each silence. Verdicts wait for it, so it does not wait for long.
create or replace function note_silences(p_replicas uuid[], p_machines text[], p_hostnames text[]) returns void
language sql set search_path from current set lock_timeout = '500ms'
as $$
  insert into unrest (kind, machine_id, hostname, replica_id)
  select 'stale', s.machine, s.hostname, h.replica_id
  from unnest(p_replicas, p_machines, p_hostnames) as s (replica, machine, hostname) join heart h on h.replica_id = s.replica
  where not exists (select from unrest u where u.replica_id = h.replica_id and u.kind = 'stale' and u.happened_at >= h.beat_at)
$$;

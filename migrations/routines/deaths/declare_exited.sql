-- The same on first-hand evidence: whoever started the process has seen it end. Not while its session is held: a moment
-- later it has ended too, and where it has not, a second copy of the process may beat on under this id. Exit codes of Windows have 32 bits
-- without a sign. A process that had been asked to leave was draining, also where it could not say so any more. Not waited for long either: whoever started the process may have others to report.
create or replace function declare_exited(p_replica uuid, p_exit_code bigint, p_signal text, p_group json default null, p_was_asked boolean default false, p_shared_with uuid[] default null) returns table (verdict text, death json)
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
declare
  v_heart   heart;
  v_replica replica;
begin
  select * into v_replica from replica where id = p_replica and status in ('online', 'draining') for update;
  select * into v_heart from heart where replica_id = p_replica for update;
  if v_replica.id is null then
    return query select 'not-alive', null::json;
    return;
  end if;
  if session_key(p_replica) = any (held_sessions()) then
    return query select 'session-held', null::json;
    return;
  end if;
  update heart set is_dead = true where replica_id = p_replica;
  update replica set status = 'dead', died_at = clock_timestamp(), death = with_exit_call(json_build_object(
      'replicaId', id, 'machineId', machine_id, 'hostname', hostname, 'because', 'exited',
      'exitCode', p_exit_code, 'signal', p_signal, 'wasDraining', status = 'draining' or p_was_asked, 'vitals', vitals_of(v_heart.signs),
      'group', p_group, 'sharedWith', p_shared_with), exit_call)
  where id = p_replica;
  return query select 'dead', replica.death from replica where id = p_replica;
end $$;

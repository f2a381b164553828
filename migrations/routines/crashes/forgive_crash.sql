-- A replica that was declared dead was not: it stood still or was cut off, and stopped its own work. Nobody is to blame.
-- Returns how long after its death that was; null: it had not been declared dead. Not waited for long: the replica has work to do. It may be repeated,
-- and the time of the first call stays.
create or replace function forgive_crash(p_replica uuid, p_how text) returns double precision
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
declare
  v_after   double precision;
  v_charged uuid[] := array(select task_id from suspicion where replica_id = p_replica and is_charged order by 1);
begin
  update replica set came_back_at = coalesce(came_back_at, clock_timestamp()), came_back_how = p_how where id = p_replica
  returning extract(epoch from came_back_at - died_at) * 1000 into v_after;
  update ready set crashes = greatest(0, crashes - 1) where task_id = any (v_charged) and input is null;
  update parked set crashes = greatest(0, crashes - 1) where task_id = any (v_charged);
  perform lock_claims_of(v_charged);
  update running set crashes = greatest(0, crashes - 1) where task_id = any (v_charged);
  perform retry_tasks(array(
    select e.task_id from ended e join suspicion s on s.task_id = e.task_id and s.replica_id = p_replica
    where e.state = 'failed' and e.error_code = 'POISONED' and e.replica_id = p_replica), false);
  delete from suspicion where replica_id = p_replica;
  delete from crash where replica_id = p_replica;
  update unrest set kind = 'stale' where replica_id = p_replica and kind = 'dead';
  return v_after;
end $$;

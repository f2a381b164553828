-- Gives back what a replica that is not alive had only claimed.
create or replace function release_absent(p_replica uuid, p_claims bigint[], p_tasks uuid[], out done text[], out locked text[])
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
declare
  v_free record;
begin
  v_free := lock_free_claims(array[p_replica], p_claims, p_tasks);
  done := array(select release_claims(v_free.claims, v_free.tasks, p_replica));
  locked := v_free.locked;
end $$;

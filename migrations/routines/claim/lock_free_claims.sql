-- Locks these claims of these owners, in the order in which everybody locks them. A claim that is in neither list is not theirs any more.
-- p_waits: the locks of others are waited for first, for as long as lock_timeout says.
create or replace function lock_free_claims(
  p_owners uuid[], p_claims bigint[], p_tasks uuid[], p_waits boolean default false, out claims bigint[], out tasks uuid[], out locked bigint[])
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$
begin
  locked := '{}';
  if p_waits then
    begin
      select array_agg(f.claim_id), array_agg(f.task_id) into claims, tasks
      from (
        select u.claim_id, u.task_id from running u
        where u.replica_id = any (p_owners) and u.claim_id = any (p_claims)
          and coalesce((u.claim_id, u.task_id) in (select * from unnest(p_claims, p_tasks)), false)
        order by u.replica_id, u.claim_id for update) f;
      return;
    exception when lock_not_available then
      null;
    end;
  end if;
  select array_agg(f.claim_id), array_agg(f.task_id) into claims, tasks
  from (
    select u.claim_id, u.task_id from running u
    where u.replica_id = any (p_owners) and u.claim_id = any (p_claims)
      and coalesce((u.claim_id, u.task_id) in (select * from unnest(p_claims, p_tasks)), false)
    order by u.replica_id, u.claim_id for update skip locked) f;
  if claims is null or cardinality(claims) < cardinality(p_claims) then
    locked := array(
      select u.claim_id from running u
      where u.replica_id = any (p_owners) and u.claim_id = any (p_claims) and u.claim_id <> all (coalesce(claims, '{}'))
        and coalesce((u.claim_id, u.task_id) in (select * from unnest(p_claims, p_tasks)), false));
  end if;
end $$;

-- Ends attempts for having stalled, each only if it is still as quiet as it was judged to be: their rows are locked first, then
-- looked at anew. What somebody else has locked is left for the next look. Tells their replicas. Returns the claims that were ended.
create or replace function end_stalled(p_claims bigint[], p_tasks uuid[], p_after_ms double precision[], p_outcomes json) returns setof bigint
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set lock_timeout = '500ms'
as $$
declare
  v_owners   uuid[] := owners();
  v_claims   bigint[];
  v_tasks    uuid[];
  v_outcomes json;
begin
  v_claims := array(
    select claim_id from running
    where replica_id = any (v_owners) and claim_id = any (p_claims)
      and coalesce((claim_id, task_id) in (select * from unnest(p_claims, p_tasks)), false)
    order by replica_id, claim_id for update skip locked);
  select array_agg(u.claim_id order by u.claim_id), array_agg(u.task_id order by u.claim_id) into v_claims, v_tasks
  from running u left join progress p on p.claim_id = u.claim_id join listening l on l.epoch = current_epoch() and l.swept_at <= clock_timestamp()
  where u.replica_id = any (v_owners) and u.claim_id = any (v_claims)
    and quiet_ms(p.changed_at, u.started_at, l.hearing_since, clock_timestamp()) > p_after_ms[array_position(p_claims, u.claim_id)];
  if v_claims is null then
    return;
  end if;
  perform notify_all('changed', r.replica_id::text)
  from (select distinct replica_id from running where replica_id = any (v_owners) and claim_id = any (v_claims)) r;
  select json_agg(o) into v_outcomes from json_array_elements(p_outcomes) o where (o ->> 'claim')::bigint = any (v_claims);
  perform tell_of_tasks('stalled', v_tasks, v_claims, '{"action":"ended"}');
  perform end_claims(v_claims, v_tasks, v_outcomes);
  return query select unnest(v_claims);
end $$;

-- Takes claims along to another id of the same process, those that still hold. Returns them. What a dead replica had is
-- being recovered: nothing of it is taken along. Nor is a claim that somebody else keeps locked: the others must not wait for it, because
-- their owner is heard under the new id only.
create or replace function rehome_claims(p_from uuid, p_to uuid, p_claims bigint[], p_tasks uuid[]) returns setof bigint
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off set lock_timeout = '500ms'
as $$
declare
  v_free record;
begin
  perform from replica where id = p_from and status in ('online', 'draining') for share;
  if found then
    v_free := lock_free_claims(array[p_from], p_claims, p_tasks, p_waits => true);
    return query
      update running set replica_id = p_to where replica_id = p_from and claim_id = any (v_free.claims) returning claim_id;
  end if;
end $$;

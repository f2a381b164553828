-- What is put right without anybody asking, in small batches. One at a time: whoever finds another at it leaves it.

-- Tasks in idle or paused queues expire too, not only those that a claim meets. What is locked is passed over.
create function overdue_tasks(p_batch integer) returns setof uuid
language sql set search_path from current
as $$
  select unnest(
    array(select task_id from ready where expires_at <= now() order by expires_at limit p_batch for update skip locked)
    || array(select task_id from parked where expires_at <= now() order by expires_at limit p_batch for update skip locked))
$$;

create function expire_tasks(p_tasks uuid[]) returns integer
language sql set search_path from current
as $$
  select count(*)::integer from end_pending(
    p_tasks, 'expired', json_build_object('code', 'TASK_EXPIRED', 'message', 'The task was not started before its time ran out.'))
$$;

-- Tasks whose worker was told to cancel them, and neither did nor said anything until the grace and a margin were over.
create function overdue_cancels(p_batch integer) returns table (claim_id bigint, task_id uuid, replica_id uuid)
language sql stable set search_path from current
as $$
  select claim_id, task_id, replica_id from running where cancel_force_at < now() - interval '5 seconds' order by cancel_force_at limit p_batch
$$;

create function force_cancels(p_claims bigint[], p_owners uuid[]) returns integer
language sql set search_path from current
as $$
  select count(*)::integer from end_alike(
    p_claims, p_owners, '{running}', 'cancelled', 'cancelled',
    json_build_object('code', 'TASK_CANCELLED', 'message', 'Cancelled by request; its worker did not confirm it within the grace.'))
$$;

-- The record is searched for what is too old now and then for all replicas together, and not by each of them with every upkeep.
-- Whoever keeps less than the last one did does not count it as done.
create table upkeep (
  is_only       boolean primary key default true check (is_only),
  purged_at     timestamptz not null,
  max_age_ms    bigint,
  max_count     bigint,
  surveyed_at   timestamptz not null default '-infinity', -- see survey_ended
  surveyed_file oid
);
insert into upkeep (purged_at) values ('-infinity');

create function purge_if_due(p_max_age_ms bigint, p_max_count bigint, p_every_ms bigint, p_batch integer) returns integer
language plpgsql set search_path from current
as $$
declare
  v_purged integer;
begin
  -- Not a time to come, should the server's clock have been set back.
  if exists (
    select from upkeep
    where purged_at between now() - make_interval(secs => p_every_ms / 1000.0) and now()
      and (p_max_age_ms is null or max_age_ms <= p_max_age_ms) and (p_max_count is null or max_count <= p_max_count))
  then
    return 0;
  end if;
  v_purged := purge_ended(p_max_age_ms, p_max_count, p_batch);
  -- A full batch: there is more.
  update upkeep set purged_at = case when v_purged < p_batch then now() else '-infinity' end, max_age_ms = p_max_age_ms, max_count = p_max_count;
  return v_purged;
end $$;

-- All of it in one statement. Where that fails, its parts are done one by one (src/worker/upkeep-service.ts).
create function run_upkeep(p_max_age_ms bigint, p_max_count bigint, p_purge_every_ms bigint, p_batch integer)
returns table (expired integer, unparked integer, cancelled integer, purged integer)
language plpgsql set search_path from current
as $$
begin
  if not pg_try_advisory_xact_lock(gate_lock_id('service', 'upkeep')) then
    return;
  end if;
  -- First the only one that waits for locks; those after it pass over what is locked, so nobody waits in a circle.
  select force_cancels(array_agg(c.claim_id), array_agg(distinct c.replica_id)) into cancelled from overdue_cancels(p_batch) c;
  expired := expire_tasks(array(select * from overdue_tasks(p_batch)));
  unparked := unpark_every_kind(p_batch);
  purged := purge_if_due(p_max_age_ms, p_max_count, p_purge_every_ms, p_batch);
  delete from waiter where since < now() - interval '1 day';
  return next;
end $$;

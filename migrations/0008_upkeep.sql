-- What is put right without anybody asking, in small batches. One at a time: whoever finds another at it leaves it.

-- Tasks in idle or paused queues expire too, not only those that a claim meets.
create function expire_pending(p_batch integer) returns integer
language sql set search_path from current
as $$
  select count(*)::integer from end_pending(
    array(select task_id from ready where expires_at <= now() order by expires_at limit p_batch for update skip locked)
    || array(select task_id from parked where expires_at <= now() order by expires_at limit p_batch for update skip locked),
    'expired', json_build_object('code', 'TASK_EXPIRED', 'message', 'The task was not started before its time ran out.'))
$$;

-- A task whose worker was told to cancel it, and neither did nor said anything until the grace and a margin were over.
create function force_cancels(p_margin_ms bigint, p_batch integer) returns integer
language sql set search_path from current
as $$
  with due as materialized (
    select claim_id, replica_id from running where cancel_force_at < now() - make_interval(secs => p_margin_ms / 1000.0)
    order by cancel_force_at limit p_batch
  )
  select count(*)::integer from end_alike(
    array(select claim_id from due), array(select distinct replica_id from due), '{running}', 'cancelled', 'cancelled',
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

create function run_upkeep(p_max_age_ms bigint, p_max_count bigint, p_purge_every_ms bigint, p_batch integer)
returns table (expired integer, unparked integer, cancelled integer, purged integer)
language plpgsql set search_path from current
as $$
begin
  if not pg_try_advisory_xact_lock(gate_lock_id('service', 'upkeep')) then
    return;
  end if;
  -- First the only one that waits for locks; those after it pass over what is locked, so nobody waits in a circle.
  cancelled := force_cancels(5000, p_batch);
  expired := expire_pending(p_batch);
  unparked := unpark_every_kind(p_batch);
  purged := 0;
  -- Not a time to come, should the server's clock have been set back.
  if not exists (
    select from upkeep
    where purged_at between now() - make_interval(secs => p_purge_every_ms / 1000.0) and now()
      and (p_max_age_ms is null or max_age_ms <= p_max_age_ms) and (p_max_count is null or max_count <= p_max_count))
  then
    purged := purge_ended(p_max_age_ms, p_max_count, p_batch);
    -- A full batch: there is more.
    update upkeep set purged_at = case when purged < p_batch then now() else '-infinity' end, max_age_ms = p_max_age_ms, max_count = p_max_count;
  end if;
  delete from waiter where since < now() - interval '1 day';
  return next;
end $$;

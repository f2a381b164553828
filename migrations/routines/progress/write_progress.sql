-- Reports of many attempts in one statement, each only while its claim on its task holds. `p_reports` is an array of
--   { claim, task, phase, details, share, done, total, note, log, isSign }
-- where details and log are JSON within text, log is left out where no line has come, and isSign tells a report from mere log lines.
-- Returns the claims whose row somebody else has locked. These are passed over: the ends of other tasks wait for their reports, and must not
-- wait for that lock.
create or replace function write_progress(p_claims bigint[], p_reports json) returns setof bigint
language sql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_nestloop = off set enable_mergejoin = off
as $$
  with free as materialized (
    select claim_id from progress where claim_id = any (p_claims) for update skip locked
  ), locked as materialized (
    select claim_id from progress where claim_id = any (p_claims) except select claim_id from free
  ), written as (
  insert into progress as p (claim_id, task_id, phase, details, share, done, total, note, changed_at, log, logged_at)
  select u.claim_id, u.task_id, x.phase, x.details::json, x.share, x.done, x.total, x.note, case when x."isSign" then now() end,
         x.log::json, case when x.log is not null then now() end
  from running u join json_to_recordset(p_reports) as x (
    claim bigint, task uuid, phase text, details text, share double precision, done double precision, total double precision, note text,
    log text, "isSign" boolean) on x.claim = u.claim_id and x.task = u.task_id
  where u.replica_id = any ((select owners())::uuid[]) and u.claim_id = any (p_claims) and u.state = 'running'
    and not exists (select from locked l where l.claim_id = u.claim_id)
  on conflict (claim_id) do update
  set phase = excluded.phase, details = excluded.details, share = excluded.share, done = excluded.done, total = excluded.total,
      note = excluded.note, changed_at = coalesce(excluded.changed_at, p.changed_at),
      log = coalesce(excluded.log, p.log), logged_at = coalesce(excluded.logged_at, p.logged_at)
  where p.task_id = excluded.task_id
  returning p.claim_id, p.task_id, p.phase, p.details, p.share, p.done, p.total, p.note, p.changed_at
  ), told as (
    select tell_followers('progress', array_agg('task ' || task_id), array_agg(claim_id), array_agg(json_build_object(
             'phase', phase, 'details', short_details(details), 'share', share, 'done', done, 'total', total, 'note', note))) as followers
    from written where changed_at = now() having exists (select from follower)
  )
  select claim_id from locked union all select null from told where followers < 0
$$;

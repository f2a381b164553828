-- How these tasks have ended, or when they run again after which outcome of an attempt (see after_end).
create or replace function tell_of_ends(p_ended uuid[], p_again uuid[]) returns void
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
begin
  perform tell_followers('ended', array_agg('task ' || e.task_id), array_agg(e.claim_id), array_agg(json_build_object('state', e.state)))
  from ended e where e.task_id = any (p_ended);
  perform tell_followers('pending', array_agg('task ' || a.task_id), array_agg(a.claim_id), array_agg(json_build_object(
            'because', a.outcome, 'dueAt', w.run_at)))
  from unnest(p_again) t (id)
  cross join lateral (select * from attempt where task_id = t.id order by claim_id desc limit 1) a
  left join lateral (select run_at from ready where task_id = t.id and input is null) w on true;
end $$;

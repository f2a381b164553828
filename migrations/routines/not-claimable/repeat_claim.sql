-- Makes it again, in these queues.
create or replace function repeat_claim(p_claim asked_claim, p_queues text[]) returns setof claim_row
language sql set search_path from current
as $$
  select * from claim_tasks(p_claim.replica, p_claim.names, p_queues,
    array(select p_claim.room[array_position(p_claim.queues, q)] from unnest(p_queues) with ordinality as u (q, place) order by place),
    p_claim.run, p_claim.prefetch, p_claim.cursor_lane, p_claim.cursor_run_at, p_claim.cursor_task,
    p_reserve => p_claim.reserve, p_seen => p_claim.seen, p_last_lane => p_claim.last_lane)
$$;

create or replace function note_loop_turned(p_id bigint, p_blocked_ms double precision) returns void
language sql set search_path from current
as $$
  update blocked_loop set ended_at = clock_timestamp(), blocked_ms = p_blocked_ms where id = p_id and ended_at is null;
  select resolve_alert('loop-blocked', coalesce(runner_id, replica_id)::text) from blocked_loop where id = p_id;
$$;

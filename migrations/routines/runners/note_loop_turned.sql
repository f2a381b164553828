create or replace function note_loop_turned(p_id bigint, p_blocked_ms double precision) returns void
language sql set search_path from current
as $$
  update blocked_loop set ended_at = clock_timestamp(), blocked_ms = p_blocked_ms where id = p_id and ended_at is null;
  update alert a set resolved_at = now() from blocked_loop b
  where b.id = p_id and a.kind = 'loop-blocked' and a.subject = coalesce(b.runner_id, b.replica_id)::text and a.resolved_at is null;
$$;

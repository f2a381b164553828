-- The first beat. A replica that was declared dead never beats again under this id. The heart has just taken its lock and from
-- now on counts anew for how long it is without: so must whoever has seen it free. Its promise is from here on its own: while
-- another session stood in for it, that was a longer one.
create or replace function begin_heart(p_replica uuid, p_interval_ms integer, p_promise_ms integer, p_session_promise_ms integer) returns boolean
language plpgsql set search_path from current
as $$
begin
  perform from replica where id = p_replica and status in ('online', 'draining') for share;
  if not found then
    return false;
  end if;
  insert into heart (replica_id, beat_at, epoch, interval_ms, promise_ms, session_promise_ms, session_key)
  values (p_replica, now(), current_epoch(), p_interval_ms, p_promise_ms, p_session_promise_ms, session_key(p_replica))
  on conflict (replica_id) do update set beat_at = now(), epoch = excluded.epoch, session_free_since = 'infinity',
    session_promise_ms = excluded.session_promise_ms where not heart.is_dead;
  return found;
end $$;

-- The verdict: one conditional write that looks at the evidence again. The heart's row is locked and marked, so a beat that
-- comes at the same time either comes first, and the replica lives, or is refused. Everybody locks a replica before its heart.
-- Not waited for long: somebody who stands still with one replica's row must not hold up the verdicts on the others.
create or replace function declare_dead(p_replica uuid, p_because text, p_min_ms double precision, p_death json) returns boolean
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
declare
  v_heart     heart;
  v_replica   replica;
  v_listening listening;
begin
  select * into v_replica from replica where id = p_replica and status in ('online', 'draining') for update;
  select * into v_heart from heart where replica_id = p_replica for update;
  select * into v_listening from listening;
  if v_heart.replica_id is null or v_replica.id is null or v_listening.epoch <> current_epoch() or v_listening.swept_at > clock_timestamp() then
    return false;
  end if;
  if p_because = 'session-lost' then
    if not session_counts(v_heart, v_listening) or v_heart.session_key = any (held_sessions())
       or not coalesce(v_listening.swept_at - nullif(v_heart.session_free_since, 'infinity') > make_interval(secs => p_min_ms / 1000.0), false) then
      return false;
    end if;
  elsif p_because = 'silent' then
    if silent_ms(v_heart, v_replica.started_at, v_listening, v_listening.swept_at) <= p_min_ms then
      return false;
    end if;
  else
    raise exception 'a verdict because of "%" has no evidence that could be looked at again', p_because using errcode = 'invalid_parameter_value';
  end if;
  update heart set is_dead = true where replica_id = p_replica;
  update replica set status = 'dead', died_at = clock_timestamp(), death = with_exit_call(p_death, exit_call) where id = p_replica;
  return true;
end $$;

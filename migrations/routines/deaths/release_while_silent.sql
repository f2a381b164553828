-- A verdict on what it has only claimed, which is not its death: on the evidence of this moment, and no beat comes in between.
-- In one statement, so that whoever stands still in the middle of it keeps nobody's heart from beating. Where it is asked for some claims
-- after others, because one of all is refused, each time the evidence counts anew.
create or replace function release_while_silent(p_replica uuid, p_min_ms double precision, p_claims bigint[], p_tasks uuid[], out done text[], out locked text[])
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
declare
  v_heart     heart;
  v_replica   replica;
  v_listening listening;
begin
  done := '{}';
  locked := '{}';
  select * into v_heart from heart where replica_id = p_replica for update;
  select * into v_replica from replica where id = p_replica;
  select * into v_listening from listening;
  if v_listening.epoch <> current_epoch() or v_listening.swept_at > clock_timestamp()
     or coalesce(silent_ms(v_heart, v_replica.started_at, v_listening, v_listening.swept_at) <= p_min_ms, true)
     or v_heart.replica_id is null then
    return;
  end if;
  select r.done, r.locked into done, locked from release_absent(p_replica, p_claims, p_tasks) r;
end $$;

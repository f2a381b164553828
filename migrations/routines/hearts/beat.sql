-- One sign of life, stamped by the database. p_has_session: the caller's own session holds the lock. False: refused,
-- the replica was declared dead or is gone.
create or replace function beat(p_replica uuid, p_vitals json, p_has_session boolean, p_remember boolean) returns boolean
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
as $$
declare
  v_epoch text := current_epoch();
begin
  update heart h
  set beat_at = now(), epoch = v_epoch, signs = signs_of(p_vitals),
      session_epoch = case when p_has_session then v_epoch end,
      session_free_since = case when p_has_session then 'infinity' else h.session_free_since end
  from replica r
  where h.replica_id = p_replica and not h.is_dead and r.id = p_replica and r.status in ('online', 'draining');
  if not found then
    return false;
  end if;
  if p_remember then
    begin
      insert into beat_history (replica_id, beat_at, signs) values (p_replica, now(), signs_of(p_vitals));
    exception when disk_full then
      -- The beat itself is written in place and needs no room: nobody may be silent for want of a memory.
      null;
    end;
  end if;
  return true;
end $$;

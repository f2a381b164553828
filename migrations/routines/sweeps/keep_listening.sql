-- While a sweep takes long, its process says that it is there: the time that a sweep takes is no gap in which nobody listened. It must
-- say so in time. A process that was paused for longer than the gap comes too late, and the next sweep finds the gap. It is also one where no
-- heart at all was heard. Verdicts and turns go by when a sweep began, as before.
create or replace function keep_listening(p_gap_ms bigint, p_is_replica boolean) returns void
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
declare
  v_gap interval := make_interval(secs => p_gap_ms / 1000.0);
begin
  if not p_is_replica or is_a_heart_heard(known_epoch(), v_gap) then
    update listening set listened_at = clock_timestamp()
    where epoch = known_epoch() and clock_timestamp() - greatest(swept_at, listened_at) between '0' and v_gap;
  end if;
end $$;

-- A queue from which nothing can be claimed. p_advice: what to do before it is resumed.
create or replace function pause_for_trouble(p_queue text, p_reason text, p_advice text) returns void
language plpgsql set search_path from current
as $$
begin
  insert into queue (name, paused, trouble) values (p_queue, true, p_reason)
  on conflict (name) do update set paused = true, trouble = excluded.trouble, changed_at = now();
  perform raise_alert('queue-not-usable', p_queue,
    format('Queue "%s" was paused: %s. %s, then resume it.', p_queue, p_reason, p_advice),
    json_build_object('reason', p_reason));
end $$;

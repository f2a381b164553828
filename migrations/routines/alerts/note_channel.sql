-- A process has this channel: from now on every change of an alert is on record for it, until no process has had it for long. Nobody waits for it.
create or replace function note_channel(p_name text) returns void
language sql set search_path from current set lock_timeout = '500ms'
as $$
  insert into alert_channel (name) values (p_name) on conflict (name) do nothing;
  update alert_channel set seen_at = now() where name = (select name from alert_channel where name = p_name for update skip locked);
$$;

-- One for each kind and subject while it is open: it is `new`, or `open` already. That it was met again is noted at most twice a minute; p_anew: what it says has
-- changed, and is written at once. Nobody waits for one that somebody has locked, or has raised and not committed: it stays as it is (`locked`).
create or replace function note_alert(p_kind text, p_subject text, p_message text, p_details json, p_part text, p_anew boolean) returns text
language plpgsql set search_path from current set lock_timeout = '100ms'
as $$
declare
  v_id      bigint;
  v_is_late boolean;
begin
  select id, p_anew or last_raised_at < now() - interval '30 seconds' into v_id, v_is_late
  from alert where kind = p_kind and subject = p_subject and resolved_at is null;
  if found and not v_is_late then
    return 'open';
  end if;
  update alert set message = p_message, details = p_details, part = p_part, last_raised_at = now(), times = times + 1
  where id = (select id from alert where id = v_id and resolved_at is null for update skip locked);
  if found then
    return 'open';
  elsif exists (select from alert where id = v_id and resolved_at is null) then
    return 'locked';
  end if;
  insert into alert (kind, part, subject, message, details) values (p_kind, p_part, p_subject, p_message, p_details)
  on conflict (kind, subject) where resolved_at is null do nothing;
  return case when found then 'new' else 'open' end;
exception when lock_not_available then
  return 'locked';
end $$;

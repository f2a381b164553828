-- One for each kind and subject while it is open. False: it is open already.
create or replace function raise_alert(p_kind text, p_subject text, p_message text, p_details json, p_part text default null) returns boolean
language sql set search_path from current
as $$
  with raised as (
    insert into alert (kind, part, subject, message, details) values (p_kind, p_part, p_subject, p_message, p_details)
    on conflict (kind, subject) where resolved_at is null do nothing returning id
  )
  select exists (select from raised)
$$;

-- For whoever meets its cause again and again, and needs to know only whether it is new.
create or replace function raise_alert(p_kind text, p_subject text, p_message text, p_details json, p_part text default null) returns boolean
language sql set search_path from current
as $$ select note_alert(p_kind, p_subject, p_message, p_details, p_part, false) = 'new' $$;

-- What a process has to say about its alerts, all of it in one statement: each is raised, or resolved where it has no message. p_anew: it says this for the first
-- time. Returns what became of each, by its place: see note_alert and resolve_alert.
create or replace function write_alerts(p_kinds text[], p_subjects text[], p_messages text[], p_details text[], p_parts text[], p_anew boolean[])
returns table (place integer, became text)
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
#variable_conflict use_column
declare
  v_one record;
begin
  -- In one order, so that two processes that raise the same ones do not wait for each other.
  for v_one in
    select * from unnest(p_kinds, p_subjects, p_messages, p_details, p_parts, p_anew) with ordinality
      as w (kind, subject, message, details, part, is_anew, nth)
    order by w.kind, w.subject
  loop
    place := v_one.nth;
    if v_one.message is null then
      became := case when resolve_alert(v_one.kind, v_one.subject) then 'resolved' else 'locked' end;
    else
      became := note_alert(v_one.kind, v_one.subject, v_one.message, v_one.details::json, v_one.part, v_one.is_anew);
    end if;
    return next;
  end loop;
end $$;

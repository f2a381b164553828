-- All of this kind that are about this part of a service, without those about these subjects.
create or replace function resolve_other_alerts(p_kind text, p_part text, p_subjects text[]) returns void
language plpgsql set search_path from current set lock_timeout = '100ms'
as $$
begin
  perform resolve_alerts(array(
    select id from alert where kind = p_kind and part = p_part and resolved_at is null and subject <> all (p_subjects)));
end $$;

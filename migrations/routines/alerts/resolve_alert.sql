-- False: it is open still, because somebody has locked it, and nobody waits for an alert.
create or replace function resolve_alert(p_kind text, p_subject text) returns boolean
language plpgsql set search_path from current
as $$
begin
  update alert set resolved_at = now()
  where id = (select id from alert where kind = p_kind and subject = p_subject and resolved_at is null for update skip locked);
  return found or not exists (select from alert where kind = p_kind and subject = p_subject and resolved_at is null);
end $$;

-- For whoever does something else that ends the causes of these alerts: ends or retries tasks, resumes a queue. That must not fail on account of an alert
-- either. What could not be resolved is left to the next sweep, which tells why.
create or replace function resolve_alerts_of(p_kind text, p_subjects text[]) returns void
language plpgsql set search_path from current set lock_timeout = '100ms'
as $$
begin
  perform resolve_alerts(array(select id from alert where kind = p_kind and subject = any (p_subjects) and resolved_at is null));
exception when others then
  null;
end $$;

-- The alert about tasks of these names is over when somebody retries one of them: it is raised again if that one cannot be claimed either.
create or replace function end_claim_alerts(p_tasks uuid[]) returns void
language sql set search_path from current
as $$
  update alert set resolved_at = now()
  where kind = 'not-claimable' and resolved_at is null and subject in (select name from task where id = any (p_tasks))
$$;

create or replace function force_cancels(p_claims bigint[], p_tasks uuid[], p_owners uuid[]) returns integer
language sql set search_path from current set lock_timeout = '500ms'
as $$
  select count(*)::integer from end_alike(
    p_claims, p_tasks, p_owners, '{running}', 'cancelled', 'cancelled',
    json_build_object('code', 'TASK_CANCELLED', 'message', 'Cancelled by request; its worker did not confirm it within the grace.'))
$$;

-- These are convicted: the crashes that they were at are explained, and the others who were there are cleared of them. Whoever else locks
-- such a line takes it away too.
create or replace function clear_bystanders(p_convicted uuid[]) returns integer
language sql set search_path from current
as $$
  with cleared as (
    delete from suspicion where ctid = any (array(
      select s.ctid from suspicion s
      where not s.is_charged and s.task_id <> all (p_convicted)
        and s.replica_id in (select g.replica_id from suspicion g where g.task_id = any (p_convicted))
      for update of s skip locked))
    returning 1
  )
  select count(*)::integer from cleared
$$;

-- Whether this replica may take a suspect now. One that runs apart runs beside no other suspect, and no suspect beside it.
create or replace function may_take_suspect(p_replica uuid, p_is_apart boolean) returns boolean
language sql set search_path from current
as $$
  select not exists (
    select from running u join suspicion s on s.task_id = u.task_id
    where u.replica_id = p_replica and (p_is_apart or s.is_apart))
$$;

-- Whether it was at a crash that it may have caused: then it is gated, so that whoever claims it next asks whether it may (see admit).
create or replace function is_suspect(p_task uuid) returns boolean
language plpgsql stable set search_path from current
as $$
begin
  return exists (select from suspicion where task_id = p_task);
end $$;

-- Gives a pending task another input and time. False: it was claimed in the meantime.
create or replace function replace_pending(p_task uuid, p_terms json, p_inputs json, p_alone boolean) returns boolean
language plpgsql set search_path from current
as $$
declare
  v_task task;
begin
  perform from leave_pending(array[p_task]);
  if not found then
    return false;
  end if;
  delete from task where id = p_task returning * into v_task;
  perform insert_tasks(json_build_array(p_terms), json_build_array(p_inputs), false, p_alone, p_task);
  update task set created_at = v_task.created_at where id = p_task;
  return true;
end $$;

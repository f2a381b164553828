-- The same of tasks to which the same has happened. Where nobody follows anything, it is one look.
create or replace function tell_of_tasks(p_kind text, p_tasks uuid[], p_claims bigint[] default null, p_details json default null) returns integer
language plpgsql set search_path from current
as $$
begin
  if p_tasks is null or not exists (select from follower) then
    return 0;
  end if;
  return tell_followers(p_kind, array(select 'task ' || t from unnest(p_tasks) t), p_claims, array_fill(p_details, array[cardinality(p_tasks)]));
end $$;

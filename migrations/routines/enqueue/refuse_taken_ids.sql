-- The same id again is the same task again. It is none if that one has another name: then the caller would wait for a task that is not there.
create or replace function refuse_taken_ids(p_terms json) returns void
language plpgsql set search_path from current
as $$
declare
  v_taken record;
begin
  select t.id, t.name as holder, g.name into v_taken
  from json_to_recordset(p_terms) as g (ids uuid[], name text), unnest(g.ids) i join task t on t.id = i
  where t.name <> g.name limit 1;
  if found then
    raise exception 'task % was not enqueued: its id % is that of a task %', v_taken.name, v_taken.id, v_taken.holder
      using errcode = 'EB009', detail = json_build_object('name', v_taken.name, 'id', v_taken.id, 'holder', v_taken.holder);
  end if;
end $$;

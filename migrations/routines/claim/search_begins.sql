-- Where a search of this lane begins: behind these. Becomes a part of the statement that asks.
create or replace function search_begins(p_queue queue, p_lane uuid, p_cursor_lane uuid[], p_cursor_run_at timestamptz[], p_cursor_task uuid[], p_seen timestamptz)
returns table (after_run_at timestamptz, after_task uuid)
language sql stable
as $$
  select coalesce(p_cursor_run_at[i], case when is_searched_alike(p_queue, p_seen) then p_seen end, '-infinity'),
         coalesce(p_cursor_task[i], '00000000-0000-0000-0000-000000000000')
  from array_position(p_cursor_lane, p_lane) i offset 0
$$;

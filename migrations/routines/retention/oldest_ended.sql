-- Of the tasks that ended before p_before the oldest that nobody else has locked and that were not refused, and the spans that were looked at for them. So fewer than
-- p_limit means that there are no more, however many are locked or were refused.
create or replace function oldest_ended(p_before timestamptz, p_limit integer, out tasks uuid[], out spans bigint[])
language plpgsql set search_path from current set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$
declare
  v_span  record;
  v_here  record;
  v_found uuid[] := '{}'; -- not tried yet: something older may lie elsewhere
  v_times timestamptz[] := '{}';
  v_next  uuid[];
begin
  tasks := '{}';
  spans := '{}';
  <<by_span>>
  for v_span in
    select span, lead(oldest, 1, 'infinity') over (order by oldest) as next from ended_span where oldest < p_before order by oldest
  loop
    select array_agg(task_id) as tasks, array_agg(ended_at) as times into v_here
    from ended where ctid >= first_row_of(v_span.span) and ctid < first_row_of(v_span.span + 1) and ended_at < p_before;
    v_found := v_found || v_here.tasks;
    v_times := v_times || v_here.times;
    spans := spans || v_span.span;
    -- What lies elsewhere ended after these.
    v_next := array(select f.id from unnest(v_found, v_times) f (id, ended_at) where f.ended_at < v_span.next order by f.ended_at, f.id);
    for v_from in 1 .. cardinality(v_next) by p_limit loop
      tasks := tasks || lock_ended(v_next[v_from : v_from + p_limit - 1]);
      exit by_span when cardinality(tasks) >= p_limit;
    end loop;
    select coalesce(array_agg(f.id), '{}') as tasks, coalesce(array_agg(f.ended_at), '{}') as times into v_here
    from unnest(v_found, v_times) f (id, ended_at) where f.ended_at >= v_span.next;
    v_found := v_here.tasks;
    v_times := v_here.times;
  end loop;
  tasks := tasks[: p_limit];
end $$;

-- Which tasks leave now, locked, and the spans in which they lie: those that are older than p_max_age_ms, or more than p_max_count. Null: no such limit.
create or replace function ended_to_purge(p_max_age_ms bigint, p_max_count bigint, p_batch integer, out tasks uuid[], out spans bigint[])
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
declare
  v_excess bigint;
begin
  perform survey_ended();
  select o.tasks, o.spans into tasks, spans from oldest_ended(now() - make_interval(secs => p_max_age_ms / 1000.0), p_batch) o;
  if p_max_count is not null then
    select least(count(*) - p_max_count, p_batch) into v_excess from ended;
    if v_excess > cardinality(tasks) then
      select o.tasks, o.spans into tasks, spans from oldest_ended('infinity', v_excess::integer) o;
    end if;
  end if;
end $$;

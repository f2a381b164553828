-- Removes a batch of the tasks that leave now. Returns how many left: a full batch where there may be more.
create or replace function purge_ended(p_max_age_ms bigint, p_max_count bigint, p_batch integer) returns integer
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
declare
  v_gone  uuid[];
  v_spans bigint[];
begin
  select tasks, spans into v_gone, v_spans from ended_to_purge(p_max_age_ms, p_max_count, p_batch);
  perform delete_ended(v_gone);
  update ended_span set oldest = oldest_in(span) where span = any (v_spans);
  return cardinality(v_gone);
end $$;

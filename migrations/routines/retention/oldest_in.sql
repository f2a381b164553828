-- When the first of the tasks in this span ended; now, if there is none.
create or replace function oldest_in(p_span bigint) returns timestamptz
language sql stable set search_path from current set enable_seqscan = off set jit = off
as $$
  select coalesce(min(ended_at), now()) from ended where ctid >= first_row_of(p_span) and ctid < first_row_of(p_span + 1)
$$;

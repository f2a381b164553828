-- Unique keys of tasks that are nowhere on record, because somebody has deleted them by hand: such a key holds up nobody, and nothing else removes it.
-- There may be very many keys, so each call looks at a part of the table, which is drawn.
create or replace function purge_lost_holds(p_batch integer) returns integer
language plpgsql set search_path from current set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$
declare
  c_pages constant bigint := 1024;
  v_pages bigint := pg_relation_size('unique_hold') / current_setting('block_size')::bigint;
  v_from  bigint := c_pages * floor(random() * ceil(v_pages / c_pages::numeric));
  v_gone  integer;
begin
  delete from unique_hold where ctid = any (array(
    select h.ctid from unique_hold h
    where h.ctid >= format('(%s,0)', v_from)::tid and h.ctid < format('(%s,0)', v_from + c_pages)::tid
      -- In this order: nearly every task is there, and looking for it elsewhere takes longer.
      and h.ended_as is null and case when exists (select from task t where t.id = h.task_id) then false else task_state(h.task_id) is null end
    limit p_batch for update skip locked));
  get diagnostics v_gone = row_count;
  return v_gone;
end $$;

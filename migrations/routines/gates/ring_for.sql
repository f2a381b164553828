create or replace function ring_for(p_rows tid[]) returns void
language plpgsql set search_path from current
as $$
begin
  if p_rows <> '{}' then
    perform ring(array(select distinct queue from ready where ctid = any (p_rows)));
  end if;
end $$;

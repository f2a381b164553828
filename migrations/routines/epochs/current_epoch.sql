create or replace function current_epoch() returns text
language plpgsql set search_path from current
as $$
declare
  v_epoch text := known_epoch();
begin
  if v_epoch is null then
    perform begin_epoch();
    v_epoch := known_epoch();
  end if;
  return v_epoch;
end $$;

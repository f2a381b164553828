-- Why it fails in these queues; null if it does not. Nothing of it stays.
create or replace function claim_trouble(p_claim asked_claim, p_queues text[]) returns text
language plpgsql set search_path from current
as $$
begin
  perform repeat_claim(p_claim, p_queues);
  raise exception using errcode = 'EB999'; -- it does not
exception when others then
  if sqlstate <> 'EB999' and not is_about_rows(sqlstate) then
    raise;
  end if;
  return case when sqlstate <> 'EB999' then format('%s (%s)', sqlerrm, sqlstate) end;
end $$;

-- Whether it takes anything in these queues, in which it does not fail at first. What it takes does not stay. What it only moves out of the way
-- (parked, put off, expired) does, and the claim goes on behind that for a second at most. The whole claim fails in another queue each time, and so
-- would never come further by itself.
create or replace function claim_takes(p_claim asked_claim, p_queues text[]) returns boolean
language plpgsql set search_path from current
as $$
declare
  v_end   timestamptz := clock_timestamp() + interval '1 second';
  v_more  boolean;
  v_takes boolean;
begin
  loop
    begin
      select bool_or(c.claim_id is not null), bool_or(c.state = 'more') into v_takes, v_more from repeat_claim(p_claim, p_queues) c;
      if v_takes then
        raise exception using errcode = 'EB999';
      end if;
    exception when others then
      if sqlstate <> 'EB999' and not is_about_rows(sqlstate) then
        raise;
      end if;
      return sqlstate = 'EB999';
    end;
    exit when v_more is not true or clock_timestamp() > v_end;
  end loop;
  return false;
end $$;

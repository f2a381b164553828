-- Which of these rows of a queue's, which are locked, cannot be claimed, and why. All of them are tried at once, and where that fails, each half of
-- them, the second after what could be claimed of the first: a row may be bad only because another was claimed before it. Those that can be
-- claimed are claimed afterwards (`claimed`: how many): the caller takes that back.
create or replace function bad_rows(p_rows tid[], p_queue text, p_claim asked_claim, out bad bad_row[], out claimed integer)
language plpgsql set search_path from current
as $$
declare
  v_middle integer := cardinality(p_rows) / 2;
  v_lanes  uuid[] := array(select id from lane where queue = p_queue);
  -- The end of each lane. Every task is due before that time, so it does not matter which task the cursor names.
  v_times  timestamptz[] := array_fill('infinity'::timestamptz, array[cardinality(v_lanes)]);
  v_tasks  uuid[] := array_fill('00000000-0000-0000-0000-000000000000'::uuid, array[cardinality(v_lanes)]);
  v_code   text;
  v_reason text;
  v_second record;
begin
  begin
    -- As if they had just been let go, and from the end of each lane on nothing else. A trial goes by no limit of the queue, since
    -- that would leave out some of them.
    bad := '{}';
    claimed := (select count(*) from claim_tasks(p_claim.replica, p_claim.names, array[p_queue], array[null::integer], cardinality(p_rows), 0,
      v_lanes, v_times, v_tasks,
      p_ended => json_build_object('unparked', p_rows::text[], 'areFree', false, 'isTrial', true)) c where c.claim_id is not null);
    return;
  exception when others then
    if not is_about_rows(sqlstate) then
      raise;
    end if;
    v_code := sqlstate;
    v_reason := format('%s (%s)', sqlerrm, sqlstate);
  end;
  claimed := 0;
  if v_middle = 0 then
    bad := array(select row(r, v_reason, v_code)::bad_row from ready r where r.ctid = p_rows[1]);
    return;
  end if;
  select * into bad, claimed from bad_rows(p_rows[: v_middle], p_queue, p_claim);
  select * into v_second from bad_rows(p_rows[v_middle + 1 :], p_queue, p_claim);
  bad := bad || v_second.bad;
  claimed := claimed + v_second.claimed;
end $$;

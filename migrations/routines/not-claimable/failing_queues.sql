-- Of these queues, some in which the claim fails together, and not if the last is left out. Null if it does not fail at all. They
-- are tried in the order in which they are given.
create or replace function failing_queues(p_claim asked_claim, p_queues text[]) returns text[]
language plpgsql set search_path from current
as $$
declare
  v_queues text[] := array(
    select u.name from unnest(p_queues) with ordinality as u (name, place) left join queue q on q.name = u.name
    where q.paused is not true order by u.place);
  v_well   integer := 0;
  v_fails  integer := cardinality(v_queues);
  v_middle integer;
begin
  if claim_trouble(p_claim, v_queues) is null then
    return null;
  end if;
  while v_fails - v_well > 1 loop
    v_middle := (v_well + v_fails) / 2;
    if claim_trouble(p_claim, v_queues[: v_middle]) is null then
      v_well := v_middle;
    else
      v_fails := v_middle;
    end if;
  end loop;
  return v_queues[: v_fails];
end $$;

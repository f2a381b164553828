-- Whether the claim takes anything in some of these queues. Those in which it fails are left out one after the other. Where there are many of them,
-- this gives up after a second and returns false. The order is another each time, so that no queue is always behind those in which the claim fails.
create or replace function claim_takes_somewhere(p_claim asked_claim, p_queues text[]) returns boolean
language plpgsql set search_path from current
as $$
declare
  v_end     timestamptz := clock_timestamp() + interval '1 second';
  v_queues  text[] := array(select q from unnest(p_queues) q order by random());
  v_failing text[];
begin
  loop
    v_failing := failing_queues(p_claim, v_queues);
    if v_failing is null then
      return claim_takes(p_claim, v_queues);
    end if;
    -- It does not fail in those before the last.
    if claim_takes(p_claim, v_failing[: cardinality(v_failing) - 1]) then
      return true;
    elsif clock_timestamp() > v_end then
      return false;
    end if;
    v_queues := array_remove(v_queues, v_failing[cardinality(v_failing)]);
  end loop;
end $$;

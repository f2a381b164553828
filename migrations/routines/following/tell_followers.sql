-- Writes down what has happened to these topics, as far as somebody follows them, and tells the processes that do. p_claims and p_details belong
-- to the topics, place by place. Nothing fails or waits because somebody follows: what cannot be written is seen in the present state. Returns
-- how many were told.
create or replace function tell_followers(p_kind text, p_topics text[], p_claims bigint[] default null, p_details json[] default null) returns integer
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
declare
  v_told integer;
begin
  with told as materialized (
    select x.place, x.topic, f.follower
    from unnest(p_topics) with ordinality x (topic, place)
    join followed f on f.topic = x.topic
    join follower l on l.id = f.follower
    where l.until > clock_timestamp()
  ), written as (
    insert into happening (topic, kind, claim_id, details)
    select topic, p_kind, p_claims[place], p_details[place] from (select distinct place, topic from told order by place) t
  )
  select count(notify_all('happened', follower::text)) into v_told from (select distinct follower from told) t;
  return v_told;
exception when others then
  return 0;
end $$;

-- A process follows these topics, from when this has committed. Returns the epoch. Returns null if the lease had run out, so that some happenings may
-- not have been written; the caller then follows under a new id.
create or replace function follow_topics(p_follower uuid, p_topics text[], p_lease_ms double precision) returns text
language plpgsql set search_path from current
as $$
begin
  if not renew_following(p_follower, p_lease_ms, true) then
    return null;
  end if;
  insert into followed (topic, follower) select distinct t, p_follower from unnest(p_topics) t order by 1
  on conflict (topic, follower) do update set left_at = null where followed.left_at is not null;
  return current_epoch();
end $$;

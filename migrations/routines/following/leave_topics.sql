-- Nobody in this process follows them any more. p_are_over: nothing more will happen to them. The others are kept up for a while, so that
-- somebody who comes back with a position need not begin anew.
create or replace function leave_topics(p_follower uuid, p_topics text[], p_are_over boolean) returns void
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
begin
  if p_are_over then
    delete from followed where follower = p_follower and topic = any (p_topics);
  else
    update followed set left_at = clock_timestamp() where follower = p_follower and topic = any (p_topics);
  end if;
end $$;

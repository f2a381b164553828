-- Nobody in this process follows them any more. p_are_over: nothing more will happen to them. The others are kept up for as long as the lease, so that
-- somebody who comes back with a position need not begin anew. A process that has none left does not follow: nobody has to look for its topics.
create or replace function leave_topics(p_follower uuid, p_topics text[], p_are_over boolean) returns void
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
begin
  if p_are_over then
    delete from followed where follower = p_follower and topic = any (p_topics);
    delete from follower where id = p_follower and not exists (select from followed where follower = p_follower);
  else
    update followed set left_at = clock_timestamp() where follower = p_follower and topic = any (p_topics);
  end if;
end $$;

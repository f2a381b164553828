-- False: the lease had run out, or its row is lost with those of its topics. p_may_begin: it may be the first time.
create or replace function renew_following(p_follower uuid, p_lease_ms double precision, p_may_begin boolean default false) returns boolean
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
declare
  v_until timestamptz := clock_timestamp() + make_interval(secs => p_lease_ms / 1000);
begin
  if p_may_begin then
    insert into follower as l (id, until) values (p_follower, v_until)
    on conflict (id) do update set until = excluded.until where l.until > clock_timestamp();
  else
    update follower set until = v_until where id = p_follower and until > clock_timestamp();
  end if;
  if not found then
    return false;
  end if;
  perform tidy_happenings();
  return true;
end $$;

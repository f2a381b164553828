-- Whether a process has followed all along since this snapshot, and nothing that it has not seen was removed.
create or replace function is_following(p_follower uuid, p_seen pg_snapshot) returns boolean
language sql stable set search_path from current set enable_seqscan = off set jit = off
as $$
  select exists (select from follower where id = p_follower and until > clock_timestamp()) and is_seen_kept(p_seen)
$$;

-- Whether the server is known to have kept its sessions since then: one that began before is still there. A crash ends them all, also
-- where an unlogged table survives it, as it does on some managed servers. Who may see other users' sessions sees the server's own processes too.
create or replace function has_lived_since(p_since timestamptz) returns boolean
language sql volatile
as $$
  select exists (select from pg_stat_activity where backend_start < p_since
                 and backend_type in ('client backend', 'checkpointer', 'background writer', 'walwriter', 'autovacuum launcher'))
$$;

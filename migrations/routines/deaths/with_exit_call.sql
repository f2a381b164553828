-- What is on record of a death, with what the replica had its heart note in its last moment, if anything.
create or replace function with_exit_call(p_death json, p_exit_call json) returns json
language sql immutable set search_path from current
as $$
  select case when p_exit_call is null then p_death else (p_death::jsonb || jsonb_build_object('exitCall', p_exit_call))::json end
$$;

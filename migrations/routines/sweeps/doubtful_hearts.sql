-- Those who should be alive and are not surely well: not heard for that long, or, where sessions count, without their session. Mostly there are none, and
-- nothing is sent. With them, how many machines there are, and whether their own has somebody who is well.
-- As it was when this sweep began, like the verdicts below: its process may have been stopped since, and those it would judge with it.
-- Where the clock was set back since it began, it knows nothing, and neither do they: beats are stamped by the new time.
create or replace function doubtful_hearts(p_silent_ms double precision, p_do_sessions_count boolean default true)
returns table (replica_id uuid, machine_id text, hostname text, status text, silent_for_ms double precision,
               session_free_for_ms double precision, promise_ms integer, session_promise_ms integer, interval_ms integer, vitals json,
               machines integer, is_machine_well boolean)
language plpgsql stable set search_path from current
as $$
#variable_conflict use_column
declare
  v_listening listening;
begin
  select * into v_listening from listening;
  if v_listening.swept_at > clock_timestamp() or not exists (
    select from heart h join replica r on r.id = h.replica_id
    where r.status in ('online', 'draining')
      and (p_do_sessions_count and session_free_ms(h, v_listening, v_listening.swept_at) is not null
           or silent_ms(h, r.started_at, v_listening, v_listening.swept_at) >= p_silent_ms)) then
    return;
  end if;
  return query
    with fleet as materialized (
      select h.replica_id, r.machine_id, coalesce(r.machine_id, r.id::text) as machine, r.hostname, r.status, s.silent_ms,
             s.session_free_ms, h.promise_ms, h.session_promise_ms,
             h.interval_ms, h.signs, s.session_free_ms is null and s.silent_ms < p_silent_ms as is_well
      from heart h join replica r on r.id = h.replica_id
      cross join lateral (
        select silent_ms(h, r.started_at, v_listening, v_listening.swept_at) as silent_ms,
               case when p_do_sessions_count then session_free_ms(h, v_listening, v_listening.swept_at) end as session_free_ms offset 0) s
      where r.status in ('online', 'draining')
    ), company as (
      select f.machine, bool_or(f.is_well) as is_well from fleet f group by f.machine
    )
    select f.replica_id, f.machine_id, f.hostname, f.status, f.silent_ms, f.session_free_ms, f.promise_ms, f.session_promise_ms, f.interval_ms,
           vitals_of(f.signs), (select count(*)::integer from company), c.is_well
    from fleet f join company c on c.machine = f.machine
    where not f.is_well;
end $$;

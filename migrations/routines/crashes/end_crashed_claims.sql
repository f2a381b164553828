-- Like end_claims, for outcomes of which some tell of the crash of a runner:
--   crash       { id, suspects, isApart, others }: the task was there together with others. `others` are those of them that are not told of by an
--               outcome of their own: they were in the runner earlier, or elsewhere in its worker. `suspects` counts them all, also those that have
--               ended since
--   isConvicted the task is found to be what kills its runners: the crashes that it was at are explained, and the others are cleared of them
create or replace function end_crashed_claims(
  p_claims bigint[], p_tasks uuid[], p_outcomes json, p_owners uuid[] default null, p_is_followed boolean default false, p_long json[] default '{}',
  p_patience_ms integer default null)
returns json
language plpgsql set search_path from current
as $$
declare
  v_said json;
begin
  if p_patience_ms is not null then
    perform set_config('lock_timeout', p_patience_ms::text, true);
  end if;
  perform note_runner_suspects(p_claims, p_tasks, p_outcomes);
  v_said := end_claims(p_claims, p_tasks, p_outcomes, p_owners, p_is_followed, p_long);
  perform note_other_suspects(p_outcomes);
  perform clear_bystanders(array(
    select x.task from json_to_recordset(p_outcomes) as x (claim bigint, task uuid, "isConvicted" boolean)
    join ended e on e.task_id = x.task and e.claim_id = x.claim
    where x."isConvicted"));
  return v_said;
end $$;

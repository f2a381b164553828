-- Ends the attempts of a replica that is not alive, and notes which of them are suspected of its death (see note_suspects and end_claims).
create or replace function recover_claims(p_replica uuid, p_claims bigint[], p_tasks uuid[], p_outcomes json, p_suspects json,
                               out done text[], out locked text[])
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
declare
  v_free record;
begin
  v_free := lock_free_claims(array[p_replica], p_claims, p_tasks);
  done := coalesce(v_free.claims, '{}');
  locked := v_free.locked;
  if v_free.claims is null then
    return;
  end if;
  if json_array_length(p_suspects) > 0 then
    perform note_suspects(p_replica, coalesce(
      (select json_agg(x) from json_array_elements(p_suspects) x where (x ->> 'claim')::bigint = any (v_free.claims)), '[]'));
  end if;
  perform tell_of_tasks('recovered', v_free.tasks, v_free.claims, json_build_object('replicaId', p_replica));
  perform end_claims(v_free.claims, v_free.tasks, p_outcomes, array[p_replica]);
end $$;

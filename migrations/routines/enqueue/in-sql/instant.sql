-- A moment as the clients write it: ISO 8601 with its zone, or a day, which begins in UTC, and of the years that they can write. Null if
-- it is none.
create or replace function instant(p_value jsonb) returns timestamptz
language plpgsql immutable
as $$
declare
  c_iso constant text := replace('^[1-9]D{3}-DD-DD(T([01]D|2[0-3]):[0-5]D(:[0-5]D(\.D{1,9})?)?(Z|[+-](0D|1[0-4]):[0-5]D))?$', 'D', '[0-9]');
  v_text text := p_value #>> '{}';
  v_at   timestamptz;
begin
  if jsonb_typeof(p_value) <> 'string' or v_text !~ c_iso then
    return null;
  end if;
  v_at := case when char_length(v_text) = 10 then v_text || 'T00:00:00Z' else v_text end;
  return case when v_at >= '1000-01-01T00:00:00Z' and v_at < '10000-01-01T00:00:00Z' then v_at end;
exception when datetime_field_overflow then
  return null;
end $$;

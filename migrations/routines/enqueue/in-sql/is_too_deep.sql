-- Whether JSON is nested more deeply than the clients allow (src/task/json.ts): what is deeper, they could read and not write again.
create or replace function is_too_deep(p_json text) returns boolean
language plpgsql immutable
as $$
declare
  c_most constant integer := 1000;
  v_left text;
begin
  -- Most have fewer brackets than that.
  if char_length(p_json) - char_length(translate(p_json, '[{', '')) <= c_most then
    return false;
  end if;
  -- The brackets alone, without those within text. Each step takes the innermost level away.
  v_left := translate(regexp_replace(p_json, '"(?:[^"\\]|\\.)*"|[^][{}"]', '', 'g'), '{}', '[]');
  for i in 1 .. c_most loop
    exit when v_left = '';
    v_left := replace(v_left, '[]', '');
  end loop;
  return v_left <> '';
end $$;

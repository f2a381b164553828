-- Whether two JSON documents have the same value: keys may be in another order. PostgreSQL refuses to compare documents in which
-- a string holds \u0000 or half a surrogate pair. So all escapes with a \u are compared as the text that they are written in. Every backslash of
-- a string is first written as such an escape too, so that no other string comes to look the same.
create or replace function is_same_json(p_one text, p_other text) returns boolean
language plpgsql immutable
as $$
begin
  if p_one = p_other then
    return true;
  end if;
  p_one := replace(replace(p_one, E'\\\\', E'\\u005c'), E'\\u', E'\\\\u');
  p_other := replace(replace(p_other, E'\\\\', E'\\u005c'), E'\\u', E'\\\\u');
  return p_one::jsonb = p_other::jsonb;
end $$;

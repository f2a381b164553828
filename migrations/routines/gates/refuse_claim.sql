-- Fails the claim, whose worker then sets aside what it cannot take (see set_aside_bad).
create or replace function refuse_claim(p_reason text) returns text
language plpgsql
as $$
begin
  raise exception using message = p_reason, errcode = 'EB005';
end $$;

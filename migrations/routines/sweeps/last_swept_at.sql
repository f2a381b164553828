-- When somebody listened last, for those who ask whether anybody does. A sweep that began and failed has heard nobody: while sweeps fail, it is when
-- the first of them began. The sweeps themselves go by when they began (swept_at).
create or replace function last_swept_at(p_listening listening) returns timestamptz
language sql stable set search_path from current
as $$ select least(p_listening.swept_at, (select failing_since from turn where service = 'sweep')) $$;

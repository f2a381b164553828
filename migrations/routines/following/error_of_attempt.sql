-- The error with which the attempt of a claim has ended, while the attempt is on record: followers are told it whole, however long it is.
create or replace function error_of_attempt(p_claim bigint) returns json
language sql stable set search_path from current set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$ select error from attempt where claim_id = p_claim $$;

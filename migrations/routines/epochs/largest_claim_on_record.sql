-- By those that hold and those that ended for another attempt. The record of ended tasks has no index for it, and is left out: its claims are
-- older than these or were drawn in the same epoch, and a jump ahead is longer than any epoch's ids.
create or replace function largest_claim_on_record() returns bigint
language sql stable set search_path from current
as $$ select greatest((select max(claim_id) from running), (select max(claim_id) from attempt), 0) $$;

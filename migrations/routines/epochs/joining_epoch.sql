-- The epoch for a replica that joins. Rows that came by logical replication have claim ids of another server, whose last epoch may have begun
-- after this one: then this server begins a new epoch, above those ids. Asked only here, because it looks through all that runs. As the
-- schema's owner, since it reads how far the sequence has come.
create or replace function joining_epoch() returns text
language plpgsql security definer set search_path from current
as $$
begin
  if largest_claim_on_record() > (select last_value from claim_id) then
    delete from epoch_marker;
  end if;
  return current_epoch();
end $$;

-- Whoever counts places, keys or lanes has taken a lock before, and must see what others have committed until then. In a snapshot that is
-- older than the lock it would count wrong. The client then repeats the statement in a transaction that begins in read committed.
create or replace function require_read_committed() returns void
language plpgsql
as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'this must be asked in a transaction that is read committed, and this one is %', current_setting('transaction_isolation')
      using errcode = 'EB008', hint = 'Begin it with: begin isolation level read committed.';
  end if;
end $$;
